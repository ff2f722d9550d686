//! The variables of a server: as the plan sets them, as launched, and as they
//! reached the process that serves.

use std::collections::BTreeMap;
use std::fs;

use super::Serve;
use crate::evidence::bundle::Setting;
use crate::evidence::redact::public_text;
use crate::evidence::service::LaunchEnvironment;
use crate::node::{Context, Failure};
use crate::process::mask::MASK;

/// Parts of names whose values are secrets.
const SECRET: [&str; 5] = ["TOKEN", "SECRET", "PASSWORD", "CREDENTIAL", "KEY"];

impl Serve {
    /// The variables that the plan sets, with their references replaced.
    pub(super) fn variables(&self, context: &Context) -> Result<BTreeMap<String, String>, Failure> {
        self.environment.iter().map(|(name, text)| Ok((name.clone(), context.resolve(text)?))).collect()
    }
}

/// The environment for evidence.
pub(super) fn as_launched(
    set: &BTreeMap<String, String>,
    inherited: &BTreeMap<String, String>,
) -> LaunchEnvironment {
    LaunchEnvironment {
        set: set.iter().map(|(name, value)| (name.clone(), shown(name, value))).collect(),
        inherited: inherited.keys().filter(|name| !set.contains_key(*name)).cloned().collect(),
    }
}

/// The variables that the plan sets, beside those that a process began with.
pub(super) fn as_effective(set: &BTreeMap<String, String>, pid: u32) -> Vec<Setting> {
    let found = fs::read(format!("/proc/{pid}/environ")).ok();
    let compare = |(name, value): (&String, &String)| {
        let effective = found.as_ref().map(|environ| match value_in(environ, name) {
            Some(found) if found == *value => shown(name, value),
            Some(found) => different(shown(name, &found), &shown(name, value)),
            None => "nothing".to_owned(),
        });
        let shown_by = "the environment of the process that listens";
        Setting::new(&format!("environment {name}"), Some(shown(name, value)), effective, shown_by)
    };
    set.iter().map(compare).collect()
}

/// Two values that differ may look alike once they are masked.
fn different(found: String, asked: &str) -> String {
    if found == asked { "another value".to_owned() } else { found }
}

fn shown(name: &str, value: &str) -> String {
    let name = name.to_uppercase();
    if SECRET.iter().any(|part| name.contains(part)) { MASK.to_owned() } else { public_text(value) }
}

/// A variable in a block of `NAME=value` that each end with a zero byte.
fn value_in(environ: &[u8], name: &str) -> Option<String> {
    let variables = environ.split(|byte| *byte == 0);
    let value = |variable: &[u8]| {
        String::from_utf8_lossy(variable).strip_prefix(name)?.strip_prefix('=').map(str::to_owned)
    };
    variables.into_iter().find_map(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn evidence_holds_what_the_plan_sets_and_only_the_names_of_the_rest() {
        let set = variables(&[("HF_TOKEN", "hf_1"), ("LD_DIR", "/home/alice/lib"), ("OMP_NUM_THREADS", "3")]);
        let inherited = variables(&[("PATH", "/home/alice/bin"), ("OMP_NUM_THREADS", "1")]);
        let launched = as_launched(&set, &inherited);
        assert_eq!(
            launched.set,
            variables(&[("HF_TOKEN", "***"), ("LD_DIR", "lib"), ("OMP_NUM_THREADS", "3")])
        );
        assert_eq!(launched.inherited, ["PATH"]);
    }

    #[test]
    fn a_variable_that_did_not_reach_a_process_differs() {
        let path = std::env::var("PATH").unwrap();
        let set = variables(&[("PATH", &path), ("NO_SUCH_VARIABLE", "3"), ("PATHS", "x")]);
        let settings = as_effective(&set, std::process::id());
        let different: Vec<_> = settings.iter().filter(|setting| setting.differs()).collect();
        assert_eq!(different.len(), 2);
        assert_eq!(
            different[0].sentence(),
            "environment NO_SUCH_VARIABLE: asked for 3, the environment of the process that listens shows nothing"
        );
        assert_eq!(as_effective(&set, u32::MAX)[0].effective, None);
    }

    #[test]
    fn secrets_that_differ_still_differ_when_they_are_masked() {
        let mut child = std::process::Command::new("sleep").arg("60").env("API_KEY", "b").spawn().unwrap();
        let settings = as_effective(&variables(&[("API_KEY", "a")]), child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(settings[0].differs() && !settings[0].sentence().contains("shows b"));
    }
}
