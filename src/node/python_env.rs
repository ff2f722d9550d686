//! Makes a Python environment from pinned requirements.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::settings::Unfit;
use super::uv::Uv;
use super::{Artifact, Class, Context, Failure, Node, Produced};
use crate::evidence::packages::{Package, Packages};
use crate::value::Digest;

/// Makes a Python environment from pinned requirements, with `uv` (installed
/// where it is missing) and Python 3.10 or newer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PythonEnv {
    /// Requirements with exact versions, such as `aiperf==0.13.0`; what they
    /// need is resolved, recorded and installed by digest.
    pub requirements: Vec<String>,
}

impl Node for PythonEnv {
    const KIND: &'static str = "python_env";
    const VERSION: u32 = 1;
    const CLASS: Class = Class::Content;
    const OUTPUTS: &'static [(&'static str, &'static str)] =
        &[("environment", "the environment's directory"), ("python", "the path of its interpreter")];
    const EXAMPLE: &'static str = "\
client:
  python_env:
    requirements: [aiperf==0.13.0]
";
    type Evidence = Packages;

    fn key_settings(&self, context: &Context) -> Result<Value, Failure> {
        let host = &context.world.host;
        Ok(json!({
            "requirements": self.requirements,
            "python": host.programs.get("python3"),
            "architecture": host.cpu.architecture,
        }))
    }

    fn unfit(&self) -> Vec<Unfit> {
        let loose = self.requirements.iter().enumerate().filter(|(_, requirement)| !is_exact(requirement));
        loose
            .map(|(number, requirement)| {
                let message = format!("the requirement {requirement:?} has no exact version");
                Unfit::new(format!("requirements.{number}"), message, "write it as NAME==VERSION")
            })
            .collect()
    }

    async fn execute(&self, context: &Context) -> Result<Produced, Failure> {
        if let Some(loose) = self.requirements.iter().find(|requirement| !is_exact(requirement)) {
            return Err(Failure::environment(format!(
                "the requirement {loose:?} has no exact version; write it as name==version in the plan"
            )));
        }
        let uv = Uv::find(context).await?;
        let requirements = context.work.join("requirements.txt");
        let lock = context.work.join("pylock.toml");
        write(&requirements, &(self.requirements.join("\n") + "\n"))?;
        context.progress("resolving versions");
        uv.lock(context, &requirements, &lock).await?;
        let locked = Lock::read(&lock)?;
        let identity = Digest::of_json(&json!({
            "packages": locked.digest_form(),
            "python": uv.python_version,
            "architecture": context.world.host.cpu.architecture,
        }));
        let slot = context.environment_slot(identity).await?;
        if !slot.is_complete() {
            context.progress(format!("installing {} packages", locked.packages.len()));
            uv.create(context, slot.path()).await?;
            uv.sync(context, slot.path(), &lock).await?;
            slot.complete()?;
        }
        let packages = installed(slot.path(), &locked)?;
        let evidence = Packages {
            schema_version: 1,
            requirements: self.requirements.clone(),
            python: uv.python_version.clone(),
            uv: uv.version.clone(),
            lock: identity,
            packages,
        };
        Produced::new(&evidence, [("environment", Artifact::Environment(identity))])
    }
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text)
        .map_err(|error| Failure::environment(format!("the work directory cannot be written: {error}")))
}

/// Whether a requirement means one version for ever.
pub(super) fn is_exact(requirement: &str) -> bool {
    requirement.split_once("==").is_some_and(|(_, version)| !version.is_empty() && !version.contains('*'))
}

/// A lock file of PEP 751, as far as it is read here.
#[derive(Debug, Deserialize)]
struct Lock {
    #[serde(default)]
    packages: Vec<LockedPackage>,
}

#[derive(Debug, Deserialize)]
struct LockedPackage {
    name: String,
    version: String,
    #[serde(default)]
    wheels: Vec<Wheel>,
}

#[derive(Debug, Deserialize)]
struct Wheel {
    url: String,
    hashes: WheelHashes,
}

#[derive(Debug, Deserialize)]
struct WheelHashes {
    sha256: String,
}

impl Wheel {
    fn file_name(&self) -> &str {
        self.url.rsplit('/').next().unwrap_or(&self.url)
    }

    /// Whether the tags of a `WHEEL` file are those of this wheel's name, in
    /// which several tags of one part are joined by dots.
    fn carries(&self, tags: &[String]) -> bool {
        let stem = self.file_name().trim_end_matches(".whl");
        let mut parts = stem.rsplitn(4, '-');
        let (Some(platform), Some(abi), Some(python)) = (parts.next(), parts.next(), parts.next()) else {
            return false;
        };
        let has = |part: &str, word: &str| part.split('.').any(|tag| tag == word);
        !tags.is_empty()
            && tags.iter().all(|tag| {
                let mut words = tag.splitn(3, '-');
                let mut next = || words.next().unwrap_or_default();
                has(python, next()) && has(abi, next()) && has(platform, next())
            })
    }
}

impl Lock {
    fn read(path: &Path) -> Result<Self, Failure> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::environment(format!("uv left no lock file: {error}")))?;
        toml::from_str(&text)
            .map_err(|error| Failure::failed(format!("uv's lock file cannot be read: {}", error.message())))
    }

    /// Names, versions and digests, without addresses.
    fn digest_form(&self) -> Vec<(String, String, Vec<String>)> {
        self.packages
            .iter()
            .map(|package| {
                let mut hashes: Vec<_> = package.wheels.iter().map(|w| w.hashes.sha256.clone()).collect();
                hashes.sort();
                (package.name.clone(), package.version.clone(), hashes)
            })
            .collect()
    }
}

/// Reads what is really installed and finds the wheel each came from.
fn installed(environment: &Path, lock: &Lock) -> Result<Vec<Package>, Failure> {
    let library = environment.join("lib");
    let unreadable =
        |error: std::io::Error| Failure::failed(format!("the new environment cannot be read: {error}"));
    let mut packages = Vec::new();
    for python in std::fs::read_dir(&library).map_err(unreadable)? {
        let site = python.map_err(unreadable)?.path().join("site-packages");
        for entry in std::fs::read_dir(&site).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            if path.extension().is_some_and(|extension| extension == "dist-info") {
                packages.extend(package(&path, lock));
            }
        }
    }
    packages.sort_by(|a, b| a.name.cmp(&b.name));
    let missing = lock.packages.iter().find(|locked| {
        !packages.iter().any(|found| found.name == locked.name && found.version == locked.version)
    });
    match missing {
        Some(locked) => Err(Failure::failed(format!(
            "{}=={} is in the lock and not in the environment; remove the environment and run again",
            locked.name, locked.version
        ))),
        None => Ok(packages),
    }
}

fn package(dist_info: &Path, lock: &Lock) -> Option<Package> {
    let metadata = std::fs::read_to_string(dist_info.join("METADATA")).ok()?;
    let field = |name: &str| {
        let line = metadata.lines().take_while(|line| !line.is_empty()).find(|line| line.starts_with(name));
        line.and_then(|line| line.split_once(": ")).map(|(_, value)| value.trim().to_owned())
    };
    let (name, version) = (normalised(&field("Name")?), field("Version")?);
    let wheel_file = std::fs::read_to_string(dist_info.join("WHEEL")).unwrap_or_default();
    let tags: Vec<String> =
        wheel_file.lines().filter_map(|line| line.strip_prefix("Tag: ")).map(str::to_owned).collect();
    let locked = lock.packages.iter().find(|locked| locked.name == name);
    let wheel = locked.and_then(|locked| match locked.wheels.as_slice() {
        [only] => Some(only),
        several => several.iter().find(|wheel| wheel.carries(&tags)),
    });
    Some(Package {
        name,
        version,
        wheel_sha256: wheel.map(|wheel| wheel.hashes.sha256.clone()),
        wheel: wheel.map(|wheel| wheel.file_name().to_owned()),
    })
}

/// A package name as indexes compare it (PEP 503).
fn normalised(name: &str) -> String {
    let mut normal = String::new();
    for c in name.chars() {
        match c {
            '-' | '_' | '.' if normal.ends_with('-') => {}
            '-' | '_' | '.' => normal.push('-'),
            _ => normal.push(c.to_ascii_lowercase()),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wheel_is_known_by_the_tags_it_left() {
        let wheel = |name: &str| Wheel {
            url: format!("https://index.example/{name}"),
            hashes: WheelHashes { sha256: String::new() },
        };
        let tags = |tags: &[&str]| tags.iter().map(|tag| (*tag).to_owned()).collect::<Vec<_>>();
        let many = wheel("numpy-2.4.0-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl");
        let found = tags(&["cp311-cp311-manylinux_2_27_x86_64", "cp311-cp311-manylinux_2_28_x86_64"]);
        assert!(many.carries(&found));
        assert!(!wheel("numpy-2.4.0-cp311-cp311-musllinux_1_2_x86_64.whl").carries(&found));
        assert!(wheel("six-1.17.0-py2.py3-none-any.whl").carries(&tags(&["py2-none-any", "py3-none-any"])));
        assert!(!many.carries(&[]));
    }

    #[test]
    fn names_are_compared_as_indexes_do() {
        assert_eq!(normalised("Ruamel.YAML__clib"), "ruamel-yaml-clib");
    }
}
