//! `profile_export_raw.jsonl`: exactly what was sent and received.

use std::collections::HashMap;

use serde::Deserialize;

use super::failure::RecordError;
use super::metadata::Metadata;
use super::payload::Payload;
use super::response::{Piece, Response};
use crate::jsonl::FromLine;

/// A line of `profile_export_raw.jsonl`, or of a file under `raw_records/`
/// that a cut run leaves.
#[derive(Debug, Clone, PartialEq)]
pub struct RawRecord {
    /// Who, when and in which phase; the same as in the per-request export.
    pub metadata: Metadata,
    /// The performance counter when the request was sent, in nanoseconds.
    pub start_perf_ns: Option<i64>,
    /// The `X-Request-ID` header as sent.
    pub header_request_id: Option<String>,
    /// The HTTP status, if an answer began.
    pub status: Option<u16>,
    /// The body as sent; none if nothing was sent.
    pub payload: Option<Payload>,
    /// What came back, put together.
    pub response: Response,
    /// Why it failed, if it did.
    pub error: Option<RecordError>,
}

#[derive(Deserialize)]
struct Line<'a> {
    metadata: Metadata,
    start_perf_ns: Option<i64>,
    request_headers: Option<HashMap<String, String>>,
    status: Option<u16>,
    payload: Option<Payload>,
    #[serde(borrow)]
    responses: Vec<Piece<'a>>,
    error: Option<RecordError>,
}

impl FromLine for RawRecord {
    fn from_line(line: &[u8]) -> Result<Self, serde_json::Error> {
        let line: Line<'_> = serde_json::from_slice(line)?;
        Ok(Self {
            metadata: line.metadata,
            start_perf_ns: line.start_perf_ns,
            header_request_id: line.request_headers.and_then(request_id),
            status: line.status,
            payload: line.payload,
            response: Response::of(&line.responses),
            error: line.error,
        })
    }
}

fn request_id(headers: HashMap<String, String>) -> Option<String> {
    let mut named = headers.into_iter().filter(|(name, _)| name.eq_ignore_ascii_case("x-request-id"));
    named.next().map(|(_, value)| value)
}
