//! The accounting document: what is written down and read back.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::matching::MatchedBy;
use super::server::ServerAccount;
use crate::evidence::outcome::{FailureKind, Outcome};
use crate::evidence::request::{ClientReport, ExportFault, Phase};
use crate::value::Digest;

/// One time that a turn, or an unplanned text, was sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sending {
    /// The request's id.
    pub request_id: String,
    /// The client's phase.
    pub phase: Phase,
    /// What showed which turn it was; none if it is no planned turn.
    pub matched_by: Option<MatchedBy>,
    /// Digest of the text as sent, if it was recorded.
    pub text_digest: Option<Digest>,
    /// The text sent is the pinned text.
    pub text_matches: bool,
    /// How it ended.
    pub outcome: Outcome,
}

/// What became of one planned turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TurnAccount {
    /// The row's id.
    pub row: String,
    /// The turn within the row, from 0.
    pub turn: u32,
    /// The row's category.
    pub category: String,
    /// Digest of the pinned text.
    pub text_digest: Digest,
    /// Each time it was sent, in any phase, by time.
    pub sendings: Vec<Sending>,
}

impl TurnAccount {
    /// The times it was sent while measuring.
    pub fn measured(&self) -> impl Iterator<Item = &Sending> {
        self.sendings.iter().filter(|sending| sending.phase == Phase::Profiling)
    }
}

/// Counts of the whole run. Requests are counted by different ids, and those
/// by outcome are the ones of the measured phase.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Totals {
    /// Planned turns: each to be sent once.
    pub planned: u64,
    /// Turns sent exactly once while measuring.
    pub sent_once: u64,
    /// Turns never sent while measuring.
    pub missing: u64,
    /// Turns sent more than once while measuring.
    pub repeated: u64,
    /// Different request ids in the client's exports.
    pub requests: u64,
    /// Requests of the client's own warmup phase.
    pub warmup_phase: u64,
    /// Requests of the measured phase.
    pub profiling: u64,
    /// Requests of any other phase.
    pub other_phase: u64,
    /// Measured requests that are planned turns.
    pub matched: u64,
    /// Measured requests that are none.
    pub unmatched: u64,
    /// Lines of the per-request export that hold a record.
    pub client_lines: u64,
    /// Lines of the raw export that hold a record.
    pub raw_lines: u64,
    /// Lines of the per-request export beyond the first of an id.
    pub duplicate_client_lines: u64,
    /// Lines of the raw export beyond the first of an id.
    pub duplicate_raw_lines: u64,
    /// Requests that only the raw export has.
    pub without_client_line: u64,
    /// Requests that only the per-request export has.
    pub without_raw_line: u64,
    /// Complete answers with text.
    pub answered: u64,
    /// Complete answers without text.
    pub empty: u64,
    /// Requests given up by the client.
    pub cancelled: u64,
    /// Requests whose answer was not recorded.
    pub unrecorded: u64,
    /// Requests that failed.
    pub failed: u64,
    /// The failed ones by kind.
    pub failures: BTreeMap<FailureKind, u64>,
    /// Requests whose text still held a placeholder.
    pub placeholders_sent: u64,
}

/// Completeness of one category.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CategoryAccount {
    /// Planned turns.
    pub planned: u64,
    /// Turns sent exactly once while measuring.
    pub sent_once: u64,
    /// Turns never sent while measuring.
    pub missing: u64,
    /// Turns sent more than once while measuring.
    pub repeated: u64,
    /// Measured requests that got a complete answer with text.
    pub answered: u64,
}

/// Warmup, configured beside observed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WarmupAccount {
    /// Requests that had to be sent at least.
    pub configured: u64,
    /// Different ids that were sent.
    pub observed: u64,
    /// Those with a complete, non-empty answer.
    pub answered: u64,
    /// Ids that the warmup node used more than once.
    pub duplicates: Vec<String>,
    /// Ids that the client's exports hold too.
    pub also_measured: Vec<String>,
}

/// A text that several planned turns share, so that its requests cannot be
/// told apart by their text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SharedText {
    /// Digest of the text.
    pub text_digest: Digest,
    /// The turns, as `row turn n`.
    pub turns: Vec<String>,
}

/// Every planned turn and every request accounted for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Accounting {
    /// Version of this document's form.
    pub schema_version: u32,
    /// Whether all sums add up.
    pub balanced: bool,
    /// Where they do not, a sentence each.
    pub imbalances: Vec<String>,
    /// Counts of the run.
    pub totals: Totals,
    /// Completeness by category, in the selection's order.
    pub categories: IndexMap<String, CategoryAccount>,
    /// Each planned turn, in the selection's order.
    pub turns: Vec<TurnAccount>,
    /// Requests of any phase that are no planned turn.
    pub unmatched: Vec<Sending>,
    /// Texts that several turns share and that were matched by text.
    pub shared_texts: Vec<SharedText>,
    /// Where the client's exports contradict each other.
    pub conflicts: Vec<String>,
    /// Where the exports are not whole.
    pub faults: Vec<ExportFault>,
    /// What the client says about its run.
    pub report: Option<ClientReport>,
    /// Warmup.
    pub warmup: WarmupAccount,
    /// Rows of the selection that still hold placeholder text.
    pub placeholder_rows: u64,
    /// The server's side, where the engine keeps records.
    pub server: Option<ServerAccount>,
}
