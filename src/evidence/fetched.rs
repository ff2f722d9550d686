//! A file that was fetched, and from where.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::value::Sha256;

/// A file with a checked digest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fetched {
    /// Version of this document.
    pub schema_version: u32,
    /// File name without a path.
    pub name: String,
    /// Which source answered; a path of the site is not spelled out.
    pub source: String,
    /// Content digest.
    pub sha256: Sha256,
    /// Size in bytes.
    pub bytes: u64,
    /// Sources that were tried before and why they did not answer.
    pub passed_over: Vec<String>,
}
