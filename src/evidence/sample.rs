//! A request that went well, for the tests of the rules.

use super::request::{ClientTimes, Lines, Phase, Sent};
use crate::value::Digest;

/// A measured request with this text, answered in full.
pub(super) fn sent(id: &str, text: &str) -> Sent {
    Sent {
        request_id: id.to_owned(),
        phase: Phase::Profiling,
        conversation_id: None,
        turn_index: Some(0),
        start_ns: 1_000,
        end_ns: 2_000,
        text_digest: Some(Digest::of(text)),
        payload_digest: None,
        placeholder: false,
        choices: None,
        status: Some(200),
        failure: None,
        cancelled: false,
        finish_reason: Some("stop".to_owned()),
        output_text: Some("an answer".to_owned()),
        reasoning_digest: None,
        prompt_tokens: None,
        output_tokens: None,
        client: ClientTimes { end_to_end_ms: Some(100.0), ..ClientTimes::default() },
        engine: None,
        lines: Lines { client: 1, raw: 1 },
        conflicts: Vec::new(),
    }
}
