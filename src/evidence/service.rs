//! How a server proved to be ours, and what it reported.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bundle::Setting;
use super::teardown::Teardown;
use crate::value::Digest;

/// A server that was started for this run and proved to be ours.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Service {
    /// Version of this document.
    pub schema_version: u32,
    /// The engine's adapter.
    pub engine: String,
    /// The bundle it serves.
    pub bundle: Digest,
    /// Model name it was asked to serve under.
    pub model_name: String,
    /// The command as launched; places are replaced by their names.
    pub command: Vec<String>,
    /// The environment as launched.
    #[serde(default)]
    pub environment: LaunchEnvironment,
    /// Milliseconds from launch to the first ready answer.
    pub ready_after_ms: u64,
    /// Every proof, in the order it was made.
    pub proofs: Vec<Proof>,
    /// The identified request that showed it answers.
    pub probe: ProbeRequest,
    /// Settings asked for beside what the engine reports.
    pub settings: Vec<Setting>,
    /// What the engine says of itself, as received, without private paths.
    pub reported: serde_json::Value,
    /// How it ended and what was left of it; absent while it runs, and so in
    /// what the nodes that used it name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub teardown: Option<Teardown>,
}

/// The variables that a server was launched with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LaunchEnvironment {
    /// Variables that the plan sets; places are replaced by their names, and
    /// `***` stands for a value whose name says that it is a secret.
    pub set: BTreeMap<String, String>,
    /// Names of the variables that every program gets. Their values say whose
    /// machine it is, and none decides how an engine computes.
    pub inherited: Vec<String>,
}

/// One thing that shows a server is the one we started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Proof {
    /// What was shown, such as `socket_is_ours`.
    pub what: String,
    /// By which observation.
    pub shown_by: String,
}

impl Proof {
    /// Something that was shown, and by which observation.
    #[must_use]
    pub fn new(what: &str, shown_by: impl Into<String>) -> Self {
        Self { what: what.to_owned(), shown_by: shown_by.into() }
    }
}

/// One identified request and its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeRequest {
    /// The `X-Request-ID` that was sent.
    pub request_id: String,
    /// HTTP status.
    pub status: u16,
    /// Characters of text in the answer.
    pub answer_characters: usize,
}
