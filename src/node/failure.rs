//! Why a node did not succeed, and what to do about it.

use serde_json::Value;

use crate::process::{ProbeError, SpawnError};
use crate::store::StoreError;

/// Who has to act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// The node ran and did not hold: exit code 1.
    Failed,
    /// The machine cannot run it as it is: exit code 3.
    Environment,
    /// The user stopped it: exit code 130.
    Cancelled,
}

/// A node that did not succeed.
#[derive(Debug, Clone)]
pub struct Failure {
    /// Who has to act.
    pub kind: FailureKind,
    /// What is wrong, where, and what to do.
    pub message: String,
    /// The end of a log that shows it.
    pub log_tail: Option<String>,
    /// Evidence of the failed work, which reports may show.
    pub evidence: Option<Box<Value>>,
}

impl Failure {
    fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), log_tail: None, evidence: None }
    }

    /// The work was done and did not hold.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Failed, message)
    }

    /// The machine cannot do the work as it is.
    pub fn environment(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Environment, message)
    }

    /// The user stopped it.
    #[must_use]
    pub fn cancelled() -> Self {
        Self::new(FailureKind::Cancelled, "stopped by the user")
    }

    /// Adds the end of a log.
    #[must_use]
    pub fn with_log(mut self, tail: String) -> Self {
        self.log_tail = (!tail.is_empty()).then_some(tail);
        self
    }

    /// Adds evidence of the failed work.
    #[must_use]
    pub fn with_evidence(mut self, evidence: &impl serde::Serialize) -> Self {
        self.evidence = serde_json::to_value(evidence).ok().map(Box::new);
        self
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::environment(error.to_string())
    }
}

impl From<SpawnError> for Failure {
    fn from(error: SpawnError) -> Self {
        Self::environment(error.to_string())
    }
}

impl From<ProbeError> for Failure {
    fn from(error: ProbeError) -> Self {
        Self::environment(error.to_string())
    }
}
