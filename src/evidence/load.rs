//! One AIPerf run: what was asked, what ran, what it left.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bundle::Setting;
use super::quiet::Machine;
use crate::value::Digest;

/// A finished AIPerf run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Load {
    /// Version of this document.
    pub schema_version: u32,
    /// AIPerf's version as its export states it.
    pub aiperf_version: String,
    /// Digest of the lock of the environment AIPerf ran in.
    pub client: Digest,
    /// The command as launched; places are replaced by their names.
    pub command: Vec<String>,
    /// How the corpus reached AIPerf.
    pub dataset: String,
    /// The selection that was staged.
    pub selection_digest: Digest,
    /// Requests the plan asks for.
    pub planned_requests: usize,
    /// Settings asked for beside what the export records.
    pub settings: Vec<Setting>,
    /// Exit code of AIPerf.
    pub exit_code: Option<i32>,
    /// Digest of the bundle the server was started with.
    pub bundle: Digest,
    /// Digest of the served file before the load.
    pub model_before: Digest,
    /// Digest of the served file after the load.
    pub model_after: Digest,
    /// Load average over one minute before the run.
    pub load_average_before: f64,
    /// Load average over one minute after the run.
    pub load_average_after: f64,
    /// Start of the run (RFC 3339).
    pub started_at: String,
    /// Length of the run in milliseconds, AIPerf's own start-up included.
    pub took_ms: u64,
    /// How the machine was before, during and after; evidence of older
    /// versions does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<Machine>,
}
