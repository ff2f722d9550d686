//! The capability audit: four findings that are never derived from each other.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::value::Digest;

/// Whether this run speculated, and what shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Audit {
    /// Version of this document.
    pub schema_version: u32,
    /// The bundle that was audited.
    pub bundle: Digest,
    /// The engine's adapter.
    pub engine: String,
    /// Ways of speculation the engine offers in this version, whether used or not.
    pub engine_could: Vec<String>,
    /// `configured`, `loaded`, `engaged` and `effective`, in this order.
    pub findings: Vec<Finding>,
    /// Settings found that force an acceptance for tests.
    pub forced_acceptance: Vec<String>,
}

/// One line of the audit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Which of the four.
    pub what: Stage,
    /// What was found.
    pub answer: Answer,
    /// The file, field, counter or response that shows it, or why nothing can.
    pub shown_by: String,
}

/// The four findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Somebody asked for speculation.
    Configured,
    /// A drafter is there.
    Loaded,
    /// Drafts were verified during the run.
    Engaged,
    /// Drafts were accepted and decoding got faster by it.
    Effective,
}

/// What a finding says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// It was seen.
    Yes,
    /// It was looked for where it would show, and is not there.
    No,
    /// Nothing shows it either way.
    Unavailable,
}

impl Stage {
    /// The word printed for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Configured => "configured",
            Self::Loaded => "loaded",
            Self::Engaged => "engaged",
            Self::Effective => "effective",
        }
    }
}

impl Answer {
    /// The word printed for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::Unavailable => "unavailable",
        }
    }
}
