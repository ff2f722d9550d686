//! TRTMC's `--records` file: one JSON line for each request that its server
//! handled, over the server's whole life.

use std::path::Path;

use serde::Deserialize;

use crate::evidence::request::{ExportFault, ServerRecord};
use crate::jsonl::{Entries, Entry, FromLine, ReadError};

/// A line of the file. Fields that we do not use are left out.
#[derive(Debug, Deserialize)]
struct Line {
    request_id: String,
    status: Option<u16>,
    completion_tokens: Option<u64>,
    handler_ms: Option<f64>,
    admission_ms: Option<f64>,
    model_call_ms: Option<f64>,
    timing_scope: Option<String>,
    prefill_ms: Option<f64>,
    decode_ms: Option<f64>,
}

impl FromLine for ServerRecord {
    fn from_line(line: &[u8]) -> Result<Self, serde_json::Error> {
        let line: Line = serde_json::from_slice(line)?;
        Ok(Self {
            request_id: line.request_id,
            status: line.status,
            output_tokens: line.completion_tokens,
            handler_ms: line.handler_ms,
            queue_ms: line.admission_ms,
            model_call_ms: line.model_call_ms.and_then(stage),
            timing_scope: line.timing_scope,
            prefill_ms: line.prefill_ms.and_then(stage),
            decode_ms: line.decode_ms.and_then(stage),
        })
    }
}

/// The time of a stage: a zero, as Edge backends write it, means that it was
/// not measured.
fn stage(milliseconds: f64) -> Option<f64> {
    (milliseconds > 0.0).then_some(milliseconds)
}

/// Reads all records, and where the file is not whole.
pub fn read(path: &Path) -> Result<(Vec<ServerRecord>, Vec<ExportFault>), ReadError> {
    let (mut records, mut faults) = (Vec::new(), Vec::new());
    for entry in Entries::open(path)? {
        match entry? {
            Entry::Record(_, record) => records.push(record),
            Entry::Fault(fault) => faults.push(fault),
        }
    }
    Ok((records, faults))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::request::FaultKind;

    fn record(line: &str) -> ServerRecord {
        ServerRecord::from_line(line.as_bytes()).unwrap()
    }

    #[test]
    fn a_success_has_the_call_and_its_scope() {
        let record = record(
            r#"{"request_id":"a1","route":"/v1/chat/completions","model":"Qwen/Qwen3-0.6B","replica":0,
            "input_tokens":null,"completion_tokens":48,"completion_token_source":"worker","status":200,
            "handler_ms":410.5,"admission_ms":0.1,"has_system_prompt":false,"setup_ms":1.0,"prefill_ms":20.0,
            "decode_ms":380.0,"model_call_ms":401.0,"worker_roundtrip_ms":405.0,
            "timing_scope":"public_task_call_wall","streaming":"none"}"#,
        );
        assert_eq!(record.model_call_ms, Some(401.0));
        assert_eq!(record.timing_scope.as_deref(), Some("public_task_call_wall"));
        assert_eq!((record.prefill_ms, record.decode_ms), (Some(20.0), Some(380.0)));
        assert_eq!((record.status, record.output_tokens, record.queue_ms), (Some(200), Some(48), Some(0.1)));
    }

    #[test]
    fn a_refused_request_has_a_status_and_no_times() {
        let record = record(
            r#"{"request_id":"a2","route":"/v1/chat/completions","status":429,"handler_ms":0.2,"completion_tokens":null}"#,
        );
        assert_eq!((record.status, record.model_call_ms, record.timing_scope), (Some(429), None, None));
    }

    #[test]
    fn a_zero_stage_time_is_unavailable_and_not_zero() {
        let record = record(r#"{"request_id":"a","prefill_ms":0.0,"decode_ms":0,"model_call_ms":9.5}"#);
        assert_eq!((record.prefill_ms, record.decode_ms, record.model_call_ms), (None, None, Some(9.5)));
    }

    #[test]
    fn a_file_that_was_cut_says_so() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "{\"request_id\":\"a\"}\n{}\n{\"request_id\":").unwrap();
        let (records, faults) = read(file.path()).unwrap();
        assert_eq!(records.len(), 1);
        let kinds: Vec<_> = faults.iter().map(|fault| (fault.line.unwrap(), fault.kind)).collect();
        assert_eq!(kinds, [(2, FaultKind::Malformed), (3, FaultKind::Truncated)]);
    }
}
