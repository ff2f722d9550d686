//! The metadata that AIPerf writes with each record of both exports.

use serde::{Deserialize, Deserializer};

use crate::evidence::request::Phase;

/// `metadata` of a line, as AIPerf's `MetricRecordMetadata` documents it. Both
/// exports carry the same of a request.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Metadata {
    /// The `X-Request-ID` that was sent, if any.
    #[serde(rename = "x_request_id")]
    pub request_id: Option<String>,
    /// The `X-Correlation-ID`: one for all turns of a conversation's replay.
    #[serde(rename = "x_correlation_id")]
    pub correlation_id: Option<String>,
    /// The conversation: the row's id in some data set types, invented in
    /// others.
    pub conversation_id: Option<String>,
    /// The turn within the conversation, from 0.
    pub turn_index: Option<u32>,
    /// The number of the session; it starts anew in each phase.
    pub session_num: Option<u64>,
    /// The phase.
    #[serde(rename = "benchmark_phase", deserialize_with = "phase")]
    pub phase: Phase,
    /// What releases after 0.13.0 say of the row: its category, where the
    /// data set has one.
    pub source_kind: Option<String>,
    /// Wall clock when it was sent, in nanoseconds since 1970.
    #[serde(rename = "request_start_ns")]
    pub start_ns: i64,
    /// Wall clock when a streamed answer was acknowledged.
    #[serde(rename = "request_ack_ns")]
    pub ack_ns: Option<i64>,
    /// Wall clock when it ended or failed.
    #[serde(rename = "request_end_ns")]
    pub end_ns: i64,
    /// AIPerf gave the request up.
    #[serde(rename = "was_cancelled", default)]
    pub cancelled: bool,
    /// AIPerf took the failure as a prompt that does not fit.
    #[serde(default)]
    pub context_overflow_skip: bool,
}

fn phase<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Phase, D::Error> {
    Ok(match String::deserialize(deserializer)?.as_str() {
        "warmup" => Phase::Warmup,
        "profiling" => Phase::Profiling,
        _ => Phase::Other,
    })
}
