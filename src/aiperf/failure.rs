//! What kind of failure AIPerf's error stands for.

use serde::Deserialize;

use super::metadata::Metadata;
use super::raw::RawRecord;
use crate::evidence::outcome::FailureKind;
use crate::evidence::request::Failure;

/// Status that AIPerf gives requests which it gave up itself.
const CLIENT_CLOSED_REQUEST: i64 = 499;

/// How much of an error's message is kept: servers may send whole pages.
const MESSAGE_CHARACTERS: usize = 500;

/// `error` of a line, AIPerf's `ErrorDetails`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct RecordError {
    /// The HTTP status, or AIPerf's own code.
    pub code: Option<i64>,
    /// The HTTP reason, or the name of AIPerf's exception.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// What the server or the exception said.
    #[serde(default)]
    pub message: String,
}

impl RecordError {
    fn is(&self, kind: &str) -> bool {
        self.kind.as_deref() == Some(kind)
    }
}

/// Whether AIPerf gave the request up: it says so in one of three ways.
pub(super) fn cancelled(metadata: &Metadata, error: Option<&RecordError>) -> bool {
    metadata.cancelled
        || error.is_some_and(|error| {
            error.is("RequestCancellationError") || error.code == Some(CLIENT_CLOSED_REQUEST)
        })
}

/// Why the request failed, from AIPerf's error and from the answer itself.
///
/// AIPerf sees no error in a stream that ends early with a clean close, nor in
/// an error object inside a data chunk; the answer shows both.
pub(super) fn failure(
    metadata: &Metadata,
    error: Option<&RecordError>,
    raw: Option<&RawRecord>,
) -> Option<Failure> {
    let in_band = raw.and_then(|raw| raw.response.in_band_error.as_deref());
    let status = raw.and_then(|raw| raw.status);
    let kind = if metadata.context_overflow_skip {
        FailureKind::ContextOverflow
    } else if in_band.is_some() || error.is_some_and(|error| error.is("SSEResponseError")) {
        FailureKind::InBand
    } else if let Some(kind) = status.and_then(FailureKind::of_status) {
        kind
    } else if let Some(error) = error {
        of_error(error, status, raw)?
    } else {
        of_answer(raw?)?
    };
    let words = error.map(|error| error.message.as_str()).or(in_band);
    Some(Failure {
        kind,
        code: error.and_then(|error| error.code).or(status.map(i64::from)),
        message: words
            .map_or_else(|| kind.to_string(), |words| words.chars().take(MESSAGE_CHARACTERS).collect()),
    })
}

/// The kind of an error that came without a failing status in the raw record.
fn of_error(error: &RecordError, status: Option<u16>, raw: Option<&RawRecord>) -> Option<FailureKind> {
    if error.is("InvalidInferenceResultError") {
        // AIPerf's word for an answer without text: empty if it is complete.
        return raw.map_or(Some(FailureKind::Unreadable), of_answer);
    }
    let by_code = error.code.and_then(|code| u16::try_from(code).ok());
    let by_code = by_code.filter(|code| status.is_none() && (100..600).contains(code));
    Some(by_code.and_then(FailureKind::of_status).unwrap_or(FailureKind::Transport))
}

/// What is wrong with an answer that came with a success.
fn of_answer(raw: &RawRecord) -> Option<FailureKind> {
    let response = &raw.response;
    if response.chunks == 0 {
        Some(FailureKind::Unreadable)
    } else if response.streamed {
        (!response.done).then_some(FailureKind::CutStream)
    } else {
        (!response.done).then_some(FailureKind::Unreadable)
    }
}
