//! `profile_export_aiperf.json` and the ready file: the run as a whole.

use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::ExportError;
use super::failure::RecordError;
use crate::evidence::request::ClientReport;
use crate::jsonl::ReadError;

/// What we use of `profile_export_aiperf.json`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Aggregate {
    /// AIPerf's version.
    #[serde(rename = "aiperf_version")]
    pub version: Option<String>,
    /// The version of the document's form.
    pub schema_version: Option<String>,
    /// Whether the run went to its end.
    pub is_complete: Option<bool>,
    /// Why it did not.
    pub incomplete_reason: Option<String>,
    /// Whether the run was cancelled.
    pub was_cancelled: Option<bool>,
    /// Measured requests that AIPerf took as valid.
    pub request_count: Option<Count>,
    /// Measured requests that it took as errors; absent if there were none.
    pub error_request_count: Option<Count>,
    /// The errors, counted by their details.
    #[serde(default)]
    pub error_summary: Option<Vec<ErrorCount>>,
}

/// A count, in the form of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub struct Count {
    avg: f64,
}

/// How often an error happened.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ErrorCount {
    /// The error.
    #[serde(rename = "error_details")]
    pub error: RecordError,
    /// How often.
    pub count: u64,
}

/// `.aiperf_results_ready.json`, written last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) struct Ready {
    #[serde(rename = "ready")]
    results: bool,
    #[serde(default)]
    was_cancelled: bool,
    #[serde(default)]
    partial: bool,
}

impl Aggregate {
    /// Reads the document.
    pub fn read(path: &Path) -> Result<Self, ExportError> {
        read(path)
    }

    /// The report in neutral words. Without the ready file nothing says that
    /// the results are whole.
    pub(super) fn report(&self, ready: Option<Ready>) -> ClientReport {
        ClientReport {
            version: self.version.clone(),
            is_complete: self.is_complete,
            was_cancelled: self
                .was_cancelled
                .map(|cancelled| cancelled || ready.is_some_and(|ready| ready.was_cancelled)),
            partial: ready.map(|ready| ready.partial || !ready.results),
            valid_requests: self.request_count.map_or(0, Count::requests),
            failed_requests: self.error_request_count.map_or(0, Count::requests),
        }
    }
}

impl Count {
    /// The number of requests.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a number of requests, which AIPerf writes as a float"
    )]
    pub fn requests(self) -> u64 {
        self.avg.round() as u64
    }
}

pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Result<T, ExportError> {
    let bytes = std::fs::read(path).map_err(|source| ReadError { path: path.to_owned(), source })?;
    serde_json::from_slice(&bytes).map_err(|source| ExportError::Document { path: path.to_owned(), source })
}
