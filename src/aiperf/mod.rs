//! Reading what AIPerf wrote: its per-request export, its raw export, and its
//! report of the run.
//!
//! Everything is read line by line in bounded memory, of release 0.13.0 and of
//! the later ones that add `metadata.source_kind`. A place where a file is not
//! whole is reported with its line and never skipped in silence. Nothing here
//! runs AIPerf, knows an engine, or judges what it reads: [`observe`] hands
//! neutral [`Sent`](crate::evidence::request::Sent) requests to the evidence.

mod directory;
mod export;
mod failure;
mod join;
mod metadata;
mod payload;
mod raw;
mod report;
mod response;

use std::path::PathBuf;

pub use directory::{AGGREGATE, CLIENT, ExportDir};
pub use export::{ClientRecord, Metric, Metrics};
pub use failure::RecordError;
pub use join::{FieldsOf, Observations, Observed, Place, observe};
pub use metadata::Metadata;
pub use payload::{Message, Payload};
pub use raw::RawRecord;
pub use report::{Aggregate, Count, ErrorCount};
pub use response::{Response, Usage};

use crate::jsonl::ReadError;

/// An export cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// A file cannot be opened or read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A document of the run as a whole is not what AIPerf writes.
    #[error("{path} is not a document that AIPerf writes: {source}; run the load again")]
    Document {
        /// The file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
}
