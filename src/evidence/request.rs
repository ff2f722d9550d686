//! What was planned, sent and answered, in neutral words.
//!
//! Readers of a client's exports and of an engine's records fill these types;
//! the rules read nothing else.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::outcome::{FailureKind, Outcome};
use crate::value::Digest;

/// The text that unresolved SPEED-Bench rows hold in place of a prompt.
pub const PLACEHOLDER: &str = "FULL BENCHMARK DATA SHOULD BE FETCHED FROM THE SOURCE USING SPECDEC_BENCH";

/// One turn of the pinned selection, to be sent once while measuring.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Planned {
    /// The row's id in the corpus.
    pub row: String,
    /// The turn within the row, from 0.
    pub turn: u32,
    /// The row's category in the corpus.
    pub category: String,
    /// Digest of the turn's text.
    pub text_digest: Digest,
}

/// The client's phase that a request belonged to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The client's own warmup: sent, and not measured.
    Warmup,
    /// Measured.
    Profiling,
    /// A phase of another name.
    Other,
}

/// Who counted tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CountedBy {
    /// The engine, in its answer or record.
    Engine,
    /// The load generator, by its tokenizer or as it was told to.
    Client,
}

/// A number of tokens and who counted them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokenCount {
    /// How many.
    pub tokens: u64,
    /// Who says so.
    pub counted_by: CountedBy,
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Failure {
    /// What kind it is counted as.
    pub kind: FailureKind,
    /// HTTP status or the client's own code.
    pub code: Option<i64>,
    /// The client's words, cut to a bounded length.
    pub message: String,
}

/// What the client measured for one request, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClientTimes {
    /// From sending the request to its last chunk.
    pub end_to_end_ms: Option<f64>,
    /// From sending the request to its first token.
    pub first_token_ms: Option<f64>,
    /// Mean time between tokens after the first.
    pub inter_token_ms: Option<f64>,
}

/// What an engine said about one request in its own answer.
///
/// A field that the engine did not give is none; it is never zero instead.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EngineFields {
    /// What the times cover, by a stable name such as `llama_cpp_timings`.
    pub scope: String,
    /// Prompt tokens computed, without those from the cache.
    pub prompt_tokens: Option<u64>,
    /// Time spent on the prompt, in milliseconds.
    pub prompt_ms: Option<f64>,
    /// Tokens generated.
    pub predicted_tokens: Option<u64>,
    /// Time spent generating, in milliseconds.
    pub predicted_ms: Option<f64>,
    /// Prompt tokens taken from the engine's cache.
    pub cached_tokens: Option<u64>,
    /// Draft tokens proposed.
    pub draft_tokens: Option<u64>,
    /// Draft tokens accepted.
    pub accepted_tokens: Option<u64>,
    /// Verify steps of the target.
    pub verify_steps: Option<u64>,
}

/// In how many lines of each export a request id was found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lines {
    /// Lines of the per-request export.
    pub client: u32,
    /// Lines of the raw export.
    pub raw: u32,
}

/// One request of the client, joined by its id over the client's exports.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sent {
    /// The `X-Request-ID` of the request.
    pub request_id: String,
    /// The client's phase.
    pub phase: Phase,
    /// The client's name of the conversation; a row id in some formats.
    pub conversation_id: Option<String>,
    /// The turn within the conversation, from 0.
    pub turn_index: Option<u32>,
    /// Wall clock when it was sent, in nanoseconds since 1970.
    pub start_ns: i64,
    /// Wall clock when it ended, in nanoseconds since 1970.
    pub end_ns: i64,
    /// Digest of the last user message as sent.
    pub text_digest: Option<Digest>,
    /// Digest of the whole body as sent: messages and settings.
    pub payload_digest: Option<Digest>,
    /// The text sent still held the placeholder of an unresolved row.
    pub placeholder: bool,
    /// How many choices were asked for (`n`); none where not stated.
    pub choices: Option<u32>,
    /// The HTTP status, if there was one.
    pub status: Option<u16>,
    /// Why it failed, if it did.
    pub failure: Option<Failure>,
    /// The client gave it up.
    pub cancelled: bool,
    /// Why generation ended, in the engine's word.
    pub finish_reason: Option<String>,
    /// The text that came back; none where no answer was recorded.
    pub output_text: Option<String>,
    /// Digest of reasoning text that came apart from the output.
    pub reasoning_digest: Option<Digest>,
    /// Tokens of the prompt.
    pub prompt_tokens: Option<TokenCount>,
    /// Tokens of the output.
    pub output_tokens: Option<TokenCount>,
    /// The client's times.
    pub client: ClientTimes,
    /// The engine's fields, if its answer carried any.
    pub engine: Option<EngineFields>,
    /// Where the request was found.
    pub lines: Lines,
    /// Where the exports contradict each other about this request.
    pub conflicts: Vec<String>,
}

impl Sent {
    /// How the request ended. Cancellation goes before failure, since a
    /// cancelled request shows an error too.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match (&self.failure, &self.output_text) {
            _ if self.cancelled => Outcome::Cancelled,
            (Some(failure), _) => Outcome::Failed(failure.kind),
            (None, None) => Outcome::Unrecorded,
            (None, Some(text)) if text.is_empty() && self.reasoning_digest.is_none() => Outcome::Empty,
            (None, Some(_)) => Outcome::Answered,
        }
    }
}

/// One request as the server recorded it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerRecord {
    /// The id it was asked under.
    pub request_id: String,
    /// The true HTTP status, also where a failed stream kept its 200.
    pub status: Option<u16>,
    /// Tokens generated, by the server's count.
    pub output_tokens: Option<u64>,
    /// The whole handling, in milliseconds.
    pub handler_ms: Option<f64>,
    /// Waiting to be admitted, in milliseconds.
    pub queue_ms: Option<f64>,
    /// The call of the model, in milliseconds; see `timing_scope`.
    pub model_call_ms: Option<f64>,
    /// What `model_call_ms` covers, such as `public_task_call_wall`.
    pub timing_scope: Option<String>,
    /// Prompt stage of the call, in milliseconds.
    pub prefill_ms: Option<f64>,
    /// Decode stage of the call, in milliseconds.
    pub decode_ms: Option<f64>,
}

/// What is wrong with a line or a file of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// The last line does not end.
    Truncated,
    /// A line is not a record.
    Malformed,
    /// A record has no request id.
    WithoutId,
    /// A file that a finished run writes is missing.
    MissingFile,
    /// A file that only a cut run leaves is there.
    Leftover,
}

/// A place where an export is not whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExportFault {
    /// The file's name within the export.
    pub file: String,
    /// The line, from 1, if it is about one.
    pub line: Option<u64>,
    /// What kind of fault it is.
    pub kind: FaultKind,
    /// More words.
    pub detail: String,
}

impl std::fmt::Display for ExportFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            Some(line) => write!(f, "{} line {line}: {}", self.file, self.detail),
            None => write!(f, "{}: {}", self.file, self.detail),
        }
    }
}

/// What the client says about its run as a whole.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClientReport {
    /// The client's version.
    pub version: Option<String>,
    /// It says that it ran to its end.
    pub is_complete: Option<bool>,
    /// It says that it was cancelled.
    pub was_cancelled: Option<bool>,
    /// It says that its results are partial.
    pub partial: Option<bool>,
    /// Measured requests that it counts as valid.
    pub valid_requests: u64,
    /// Measured requests that it counts as errors.
    pub failed_requests: u64,
}
