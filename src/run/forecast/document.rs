//! What a forecast says, as `plan --json` and `explain --json` print it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::run::difference::Change;
use crate::value::Digest;

/// What an `apply` of a plan would do now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Forecast {
    /// Version of this document: 1.
    pub schema_version: u32,
    /// The plan's name.
    pub plan: String,
    /// Every node, after what it depends on.
    pub nodes: Vec<ForecastNode>,
    /// How many nodes there are of each action, and how long they took before.
    pub totals: Totals,
}

/// What would become of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Its result is in the store.
    Reuse,
    /// It would do its work.
    Run,
    /// A service that a node which would run needs.
    Start,
    /// A service that no node which would run needs.
    NotNeeded,
    /// The machine lacks something, or what it depends on would not run.
    NotRun,
    /// What it depends on would fail.
    Blocked,
    /// It would fail before it begins.
    Fail,
}

/// One node of a forecast.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ForecastNode {
    /// Instance name.
    pub node: String,
    /// Its kind.
    pub kind: String,
    /// The target it belongs to.
    pub target: Option<String>,
    /// What would become of it.
    pub action: Action,
    /// Why, where it is not reused.
    pub reason: Option<String>,
    /// What differs from the key of its last result, where that is known.
    pub changes: Vec<Change>,
    /// Nodes that would run first and that its key depends on.
    pub waits_for: Vec<String>,
    /// Whether it is reused after all if those give what they gave before.
    pub may_be_reused: bool,
    /// Whether it is a measurement, beside which nothing else runs.
    pub quiet: bool,
    /// How long it may take, in seconds.
    pub timeout_s: Option<f64>,
    /// What its target needs of the machine.
    pub requires: Vec<String>,
    /// The services it uses.
    pub services: Vec<String>,
    /// Its key, once the content of all its inputs is known.
    pub key: Option<Digest>,
    /// When the result that is reused was made (RFC 3339).
    pub made_at: Option<String>,
    /// How long it took when it was last made, in milliseconds: by the state,
    /// else by the store.
    pub last_took_ms: Option<u64>,
}

/// Sums over a forecast.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Totals {
    /// Nodes that would run.
    pub run: usize,
    /// Nodes that are reused.
    pub reuse: usize,
    /// Services that would start.
    pub start: usize,
    /// Services that are not needed.
    pub not_needed: usize,
    /// Nodes that would not run.
    pub not_run: usize,
    /// Nodes that would be blocked.
    pub blocked: usize,
    /// Nodes that would fail before they begin.
    pub fail: usize,
    /// Sum of the last durations of the nodes that would run, in milliseconds.
    pub known_ms: u64,
    /// Nodes that would run and have no known duration.
    pub without_duration: usize,
}

/// Everything that decides what becomes of one node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// Version of this document: 1.
    pub schema_version: u32,
    /// What would become of it, and why.
    pub forecast: ForecastNode,
    /// The file it is written in.
    pub file: String,
    /// The line there, from 1.
    pub line: u32,
    /// Its settings after all references to parameters, site and environment.
    pub settings: Value,
    /// What it depends on.
    pub inputs: Vec<ExplainedInput>,
    /// The document whose digest is the key.
    pub key_document: Option<Value>,
    /// What of its stored result is there and does not match its digest.
    pub damaged: Vec<String>,
    /// Its last result, where the state knows one.
    pub last: Option<LastKey>,
    /// Every measurement under its key, the newest last; the newest is the one
    /// that is reused.
    pub measurements: Vec<Measured>,
}

/// One of the measurements under a key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measured {
    /// Its number, from 1.
    pub attempt: u32,
    /// When it was made (RFC 3339).
    pub made_at: String,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
    /// Its evidence document in the store.
    pub evidence: Digest,
}

/// A node that another depends on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainedInput {
    /// Instance name.
    pub node: String,
    /// Why: `data`, `order`, or `whatever-was-left`.
    pub why: String,
    /// What would become of it.
    pub action: Action,
    /// What enters the key for it, or its evidence where whatever was left is
    /// read; absent where that is not known yet, and where nothing enters.
    pub digest: Option<Digest>,
}

/// The last result of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LastKey {
    /// Its key.
    pub key: String,
    /// When it was made or reused last (RFC 3339).
    pub at: String,
    /// Whether it is the key that the node has now.
    pub same: bool,
    /// Whether the store still holds the document of that key, so that the two
    /// can be compared.
    pub document_in_store: bool,
    /// Why the attempt before it failed, where it took more than one in its run.
    pub retried: Option<String>,
    /// What was said of it then, such as how a server was stopped.
    pub said: Option<String>,
}
