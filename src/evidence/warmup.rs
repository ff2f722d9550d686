//! Identified requests that bring a server to its steady state; never timed
//! as results.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::quiet::Machine;

/// What the warmup sent and what came back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Warmup {
    /// Version of this document.
    pub schema_version: u32,
    /// Requests the plan asks for.
    pub configured: usize,
    /// Every request that was sent.
    pub requests: Vec<WarmupRequest>,
    /// How the machine was before, during and after; evidence of older
    /// versions does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Machine>,
}

/// One warmup request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WarmupRequest {
    /// The `X-Request-ID` that was sent.
    pub request_id: String,
    /// HTTP status.
    pub status: u16,
    /// Milliseconds from sending to the whole answer.
    pub took_ms: f64,
    /// Characters of text in the answer.
    pub answer_characters: usize,
}
