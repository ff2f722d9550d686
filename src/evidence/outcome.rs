//! How one request ended, in words that are counted apart.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What kind of failure ended a request. Cancellation is not one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// HTTP 429: the server was busy.
    TooManyRequests,
    /// Any other HTTP status from 400 to 499.
    ClientError,
    /// An HTTP status of 500 or above.
    ServerError,
    /// Any other status that is no success.
    OtherStatus,
    /// HTTP 200, and an error object or event inside the answer.
    InBand,
    /// HTTP 200, and the stream ended without its terminal chunk.
    CutStream,
    /// An answer that is not of the expected shape.
    Unreadable,
    /// The prompt did not fit and the client did not send the request.
    ContextOverflow,
    /// No answer: refused, reset or timed out connections.
    Transport,
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooManyRequests => "HTTP 429",
            Self::ClientError => "HTTP 4xx",
            Self::ServerError => "HTTP 5xx",
            Self::OtherStatus => "unexpected HTTP status",
            Self::InBand => "error inside an HTTP 200 answer",
            Self::CutStream => "stream without its terminal chunk",
            Self::Unreadable => "unreadable answer",
            Self::ContextOverflow => "context overflow",
            Self::Transport => "transport",
        })
    }
}

impl FailureKind {
    /// The kind that an HTTP status stands for; none for a success.
    #[must_use]
    pub const fn of_status(status: u16) -> Option<Self> {
        match status {
            200..=299 => None,
            429 => Some(Self::TooManyRequests),
            400..=499 => Some(Self::ClientError),
            500.. => Some(Self::ServerError),
            _ => Some(Self::OtherStatus),
        }
    }
}

/// How one request ended. Exactly one holds for each request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A complete answer with text.
    Answered,
    /// A complete answer without any text.
    Empty,
    /// The client gave the request up.
    Cancelled,
    /// It failed.
    Failed(FailureKind),
    /// The export holds no answer, so nobody can say.
    Unrecorded,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answered => f.write_str("answered"),
            Self::Empty => f.write_str("empty answer"),
            Self::Cancelled => f.write_str("cancelled"),
            Self::Failed(kind) => write!(f, "failed: {kind}"),
            Self::Unrecorded => f.write_str("answer not recorded"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_names_its_kind_of_failure() {
        let table = [
            (200, None),
            (204, None),
            (299, None),
            (300, Some(FailureKind::OtherStatus)),
            (199, Some(FailureKind::OtherStatus)),
            (400, Some(FailureKind::ClientError)),
            (429, Some(FailureKind::TooManyRequests)),
            (499, Some(FailureKind::ClientError)),
            (500, Some(FailureKind::ServerError)),
            (503, Some(FailureKind::ServerError)),
        ];
        for (status, kind) in table {
            assert_eq!(FailureKind::of_status(status), kind, "{status}");
        }
    }
}
