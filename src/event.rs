//! What happened, once, for every reporter.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What became of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It ran and produced everything it declares.
    Succeeded,
    /// An earlier result under the same key was taken.
    Reused,
    /// It ran and did not hold.
    Failed,
    /// What it was given is wrong.
    Invalid,
    /// The engine cannot do what it asks for.
    Unsupported,
    /// A node it needs did not succeed.
    Blocked,
    /// The user left it out.
    Skipped,
    /// The user stopped it.
    Cancelled,
    /// A requirement of its target is missing.
    NotRun,
}

impl Outcome {
    /// The word printed for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Reused => "reused",
            Self::Failed => "failed",
            Self::Invalid => "invalid",
            Self::Unsupported => "unsupported",
            Self::Blocked => "blocked",
            Self::Skipped => "skipped",
            Self::Cancelled => "cancelled",
            Self::NotRun => "not-run",
        }
    }

    /// Whether what the node produces is there; nothing else counts as passed.
    #[must_use]
    pub fn passed(self) -> bool {
        matches!(self, Self::Succeeded | Self::Reused)
    }
}

/// Something a reporter may show.
#[derive(Debug, Clone)]
pub enum Event {
    /// Another apply of this project has to end first.
    Waiting {
        /// Which one, as a phrase.
        holder: String,
    },
    /// The user has asked for the end, and something still runs.
    Stopping,
    /// What a killed run left was cleared.
    Recovered {
        /// The run that was killed.
        run: String,
        /// How many of its processes had to be ended.
        processes: usize,
        /// The nodes whose work was not done, and was removed.
        unfinished: Vec<String>,
    },
    /// A run begins.
    RunStarted {
        /// Its id.
        run: String,
        /// The plan's name.
        plan: String,
        /// How many node instances it has.
        nodes: usize,
    },
    /// A node begins to work.
    NodeStarted {
        /// Instance name.
        node: String,
        /// Its kind.
        kind: &'static str,
    },
    /// What a node is doing now.
    NodeProgress {
        /// Instance name.
        node: String,
        /// A short phrase.
        doing: String,
    },
    /// A node ended.
    NodeFinished {
        /// Instance name.
        node: String,
        /// What became of it.
        outcome: Outcome,
        /// Why, where it is not plain success.
        reason: Option<String>,
        /// How long it took.
        took: Duration,
        /// The end of its log, where that helps.
        log_tail: Option<String>,
    },
    /// An attempt of a node failed, and the node is tried again.
    NodeRetried {
        /// Instance name.
        node: String,
        /// Why it failed, and why it is tried again.
        reason: String,
        /// How long the attempt took.
        took: Duration,
        /// The end of its log, where that helps.
        log_tail: Option<String>,
    },
    /// How a node ended no longer counts: it is looked at again.
    NodeReopened {
        /// Instance name.
        node: String,
        /// Why.
        reason: String,
    },
    /// A subject changed its rung.
    StatusChanged {
        /// Name of the subject.
        subject: String,
        /// Rung before.
        from: Option<String>,
        /// Rung after.
        to: String,
        /// Why.
        reason: String,
    },
    /// Every node of a subject passed, and it still lacks the top of the ladder.
    FellShort {
        /// Name of the subject.
        subject: String,
        /// Rung it holds.
        status: String,
        /// What the next rung lacks.
        missing: Vec<String>,
    },
    /// The run ended.
    RunFinished {
        /// Its exit code.
        exit_code: u8,
        /// How long it took.
        took: Duration,
        /// Where the reports are.
        reports: Vec<String>,
    },
}
