//! What became of a run, and the exit code that says so.

use std::sync::Arc;
use std::time::Duration;

use crate::event::Outcome;
use crate::node::{FailureKind, InputRecord};

/// What became of a plan.
#[derive(Debug)]
pub struct RunReport {
    /// The run's id.
    pub run: String,
    /// The exit code of the command.
    pub exit_code: u8,
    /// Every node instance, in the order they ended.
    pub nodes: Vec<NodeResult>,
    /// Where the reports are.
    pub reports: Vec<String>,
    /// How long it took.
    pub took: Duration,
}

/// What became of one node.
#[derive(Debug, Clone)]
pub struct NodeResult {
    /// Instance name.
    pub name: String,
    /// Its target, where it has one.
    pub target: Option<String>,
    /// Outcome, outputs and evidence.
    pub record: Arc<InputRecord>,
    /// Who has to act, where it did not succeed by itself.
    pub failure: Option<FailureKind>,
    /// How long it took.
    pub took: Duration,
}

/// 0 done, 1 a node or a subject did not hold, 3 the machine cannot run it, 130 stopped
/// by the user. A node that was not run for a missing requirement counts only
/// if its target is required.
pub(super) fn exit_code<'a>(
    nodes: &[NodeResult],
    mut required: impl Iterator<Item = &'a str>,
    fell_short: bool,
) -> u8 {
    let failed = |kind: FailureKind| nodes.iter().any(|node| node.failure == Some(kind));
    let lacks = |target: &str| {
        nodes
            .iter()
            .any(|node| node.target.as_deref() == Some(target) && node.record.outcome == Outcome::NotRun)
    };
    if failed(FailureKind::Cancelled) {
        130
    } else if failed(FailureKind::Failed) || fell_short {
        1
    } else if failed(FailureKind::Environment) || required.any(lacks) {
        3
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_that_is_not_qualified_by_finished_nodes_is_no_success() {
        assert_eq!(exit_code(&[], std::iter::empty(), false), 0);
        assert_eq!(exit_code(&[], std::iter::empty(), true), 1);
    }
}
