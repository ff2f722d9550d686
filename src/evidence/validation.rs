//! The family's own correctness checks on exactly one bundle.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::value::Digest;

/// Every check that ran, on a bundle that did not change meanwhile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Validation {
    /// Version of this document.
    pub schema_version: u32,
    /// The bundle the checks ran on.
    pub bundle: Digest,
    /// Digest of the served file before the checks.
    pub model_before: Digest,
    /// Digest of the served file after the checks.
    pub model_after: Digest,
    /// The checks in the order of the plan.
    pub checks: Vec<Check>,
}

/// One check of the family.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// Name in the plan.
    pub name: String,
    /// What it shows, in the target's own words.
    pub shows: String,
    /// The command as run; places are replaced by their names.
    pub command: Vec<String>,
    /// Whether it passed.
    pub passed: bool,
    /// The criterion's numbers as the check printed them.
    pub detail: serde_json::Value,
    /// Why it did not pass.
    pub reason: Option<String>,
}

impl Validation {
    /// Whether every check passed and the bundle stayed the same.
    #[must_use]
    pub fn holds(&self) -> bool {
        !self.checks.is_empty()
            && self.checks.iter().all(|check| check.passed)
            && self.model_before == self.model_after
    }
}
