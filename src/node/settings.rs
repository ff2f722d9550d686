//! What can be wrong with settings before anything runs: by themselves, and
//! with what they refer to.

use super::source::Source;
use crate::value::Input;

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
    pub(super) fn new(
        setting: impl Into<String>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        Self { setting: setting.into(), message: message.into(), help: help.into() }
    }
}

/// A reference in the settings, and the kind of node it needs.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The setting.
    pub setting: &'static str,
    /// What it refers to.
    pub input: &'a Input,
    /// The kind that this has to be of.
    pub kind: &'static str,
}

impl<'a> Wanted<'a> {
    pub(super) fn new(setting: &'static str, input: &'a Input, kind: &'static str) -> Self {
        Self { setting, input, kind }
    }
}

/// What is wrong with a list of sources.
pub(super) fn unfit_sources(sources: &[Source]) -> Vec<Unfit> {
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
pub(super) fn none_at_all<const N: usize>(settings: [(&'static str, bool); N]) -> Vec<Unfit> {
    let none = settings.into_iter().filter(|(_, is_none)| *is_none);
    none.map(|(setting, _)| Unfit::new(setting, format!("`{setting}` is 0"), "write 1 or more")).collect()
}

#[cfg(test)]
mod tests {
    use crate::node::Kind;

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
