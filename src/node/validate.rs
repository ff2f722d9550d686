//! Runs the family's own correctness checks on a bundle.

use std::collections::BTreeMap;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::build_bundle::{public_command, word_content};
use super::settings::Wanted;
use super::{Class, Context, Failure, Node, Produced};
use crate::evidence::bundle::Bundle;
use crate::evidence::redact::{public_text, public_value};
use crate::evidence::validation::{self, Validation};
use crate::value::{Digest, Duration, Input, Text};

/// Runs the family's own correctness checks against exactly one bundle, and
/// fails if a check does not pass or the bundle changes meanwhile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Validate {
    /// The bundle under test.
    pub bundle: Input,
    /// The server that the checks ask, if they need one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<Input>,
    /// The checks, run one after another; all run even if one does not pass.
    pub checks: Vec<Check>,
}

/// One check. It passes with exit code 0. The last line it prints may be
/// `{"passed": …, "detail": {…}, "reason": "…"}`, which goes into evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// A short name.
    pub name: String,
    /// What a pass shows, and what it does not.
    pub shows: String,
    /// Program and arguments.
    pub command: Vec<Text>,
    /// Variables set for the command.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, Text>,
    /// The directory it runs in; an empty one by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// Files and directories the check reads, so that a change of them runs
    /// it again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<String>,
    /// How long it may take.
    #[serde(default = "ten_minutes")]
    pub timeout: Duration,
}

fn ten_minutes() -> Duration {
    Duration::from_secs(600)
}

impl Node for Validate {
    const KIND: &'static str = "validate";
    const VERSION: u32 = 1;
    const CLASS: Class = Class::Content;
    const OUTPUTS: &'static [(&'static str, &'static str)] = &[];
    const EXAMPLE: &'static str = "\
validate:
  validate:
    bundle: ${nodes.bundle}
    server: ${nodes.server}
    checks:
      - name: repeat
        shows: greedy answers of this server repeat exactly
        command: [python3, check.py, --url, '${nodes.server.url}', --model, '${nodes.server.model_name}']
        inputs: [check.py]
        timeout: 5m
";
    type Evidence = Validation;

    fn key_settings(&self, context: &Context) -> Result<Value, Failure> {
        let checks = self.checks.iter().map(|check| check.key(context)).collect::<Vec<_>>();
        Ok(json!({"bundle": self.bundle, "server": self.server, "checks": checks}))
    }

    fn wanted(&self) -> Vec<Wanted<'_>> {
        let server = self.server.iter().map(|server| Wanted::new("server", server, "serve"));
        server.chain([Wanted::new("bundle", &self.bundle, "build_bundle")]).collect()
    }

    async fn execute(&self, context: &Context) -> Result<Produced, Failure> {
        let bundle: Bundle = context.evidence(&self.bundle)?;
        let model = match &self.server {
            Some(server) => context.service(server)?.model.clone(),
            None => context.path_of(&self.bundle.0, context.artifact(&self.bundle, "model")?)?,
        };
        let digest = || {
            Digest::of_file(&model)
                .map_err(|error| Failure::failed(format!("the bundle's model cannot be read: {error}")))
        };
        let model_before = digest()?;
        let mut checks = Vec::new();
        for (number, check) in (1..).zip(&self.checks) {
            context.progress(format!("check {number} of {}: {}", self.checks.len(), check.name));
            checks.push(check.run(context, number).await?);
        }
        let validation = Validation {
            schema_version: 1,
            bundle: bundle.digest,
            model_before,
            model_after: digest()?,
            checks,
        };
        if validation.holds() {
            return Produced::new(&validation, []);
        }
        Err(Failure::failed(refusal(&validation)).with_evidence(&validation).with_log(context.log_tail()))
    }
}

/// Why a validation does not hold.
fn refusal(validation: &Validation) -> String {
    if validation.model_before != validation.model_after {
        return "the bundle changed while it was checked; find what writes to it and run again".to_owned();
    }
    let failed: Vec<_> = validation
        .checks
        .iter()
        .filter(|check| !check.passed)
        .map(|check| format!("{} ({})", check.name, check.reason.as_deref().unwrap_or("no reason given")))
        .collect();
    if failed.is_empty() {
        return "the family declares no check; add one in the target".to_owned();
    }
    format!("the family's own checks did not pass: {}", failed.join("; "))
}

impl Check {
    /// The check without its place and its time limit, with the content of
    /// what it reads.
    fn key(&self, context: &Context) -> Value {
        let words = self.command.iter().map(|word| word_content(&word.0, context)).collect::<Vec<_>>();
        let inputs = self.inputs.iter().map(|path| content_of(&context.plan_path(path))).collect::<Vec<_>>();
        let environment = self.environment.iter().map(|(name, text)| (name, word_content(&text.0, context)));
        json!({
            "name": self.name,
            "shows": self.shows,
            "command": words,
            "environment": environment.collect::<BTreeMap<_, _>>(),
            "inputs": inputs,
        })
    }

    async fn run(&self, context: &Context, number: usize) -> Result<validation::Check, Failure> {
        let argv =
            self.command.iter().map(|part| context.resolve(part)).collect::<Result<Vec<_>, Failure>>()?;
        let variables = self
            .environment
            .iter()
            .map(|(name, text)| Ok((name.as_str(), context.resolve(text)?)))
            .collect::<Result<Vec<_>, Failure>>()?;
        let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let cwd =
            self.directory.as_ref().map_or_else(|| context.work.clone(), |path| context.plan_path(path));
        let printed = context.work.join(format!("check-{number}.out"));
        let timeout = Some(self.timeout.as_std());
        let ended = context.run_with_output(argv.clone(), &variables, &cwd, timeout, &printed).await?;
        let answer = last_json_line(&std::fs::read_to_string(&printed).unwrap_or_default());
        let said = |name: &str| answer.get(name).cloned().unwrap_or_default();
        let passed = ended.success() && said("passed") != Value::Bool(false);
        let reason = said("reason").as_str().map(str::to_owned);
        Ok(validation::Check {
            name: self.name.clone(),
            shows: self.shows.clone(),
            command: public_command(&argv),
            passed,
            detail: public_value(said("detail")),
            reason: if passed {
                None
            } else {
                Some(public_text(&reason.unwrap_or_else(|| ended.to_string())))
            },
        })
    }
}

/// A file or a whole directory by content; nothing where it is not there.
fn content_of(path: &Path) -> Option<Digest> {
    if path.is_file() {
        return Digest::of_file(path).ok();
    }
    let mut entries: Vec<_> = std::fs::read_dir(path).ok()?.flatten().map(|entry| entry.path()).collect();
    entries.sort();
    let named = entries.iter().map(|path| (path.file_name().map(|n| n.to_string_lossy()), content_of(path)));
    Some(Digest::of_json(&json!(named.collect::<Vec<_>>())))
}

/// The last line that is a JSON object, or nothing.
fn last_json_line(text: &str) -> Value {
    let mut lines = text.lines().rev().filter(|line| line.starts_with('{'));
    lines.find_map(|line| serde_json::from_str(line).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_object_a_check_prints_is_its_answer() {
        let printed = "{\"passed\": false}\nnoise\n{\"passed\": true, \"detail\": {\"agreed\": 45}}\nbye\n";
        assert_eq!(last_json_line(printed)["detail"]["agreed"], 45);
        assert_eq!(last_json_line("nothing"), Value::Null);
    }
}
