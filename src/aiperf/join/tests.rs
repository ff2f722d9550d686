use std::path::Path;

use serde_json::{Value, json};

use super::*;
use crate::evidence::outcome::{FailureKind, Outcome};
use crate::evidence::request::Phase;

fn metadata() -> Value {
    json!({"session_num": 0, "x_request_id": "r1", "x_correlation_id": "c1",
        "conversation_id": "session_000000", "turn_index": 0, "credit_issued_ns": 1,
        "request_start_ns": 10, "request_ack_ns": 11, "request_end_ns": 20,
        "worker_id": "w", "record_processor_id": "p", "benchmark_phase": "profiling",
        "was_cancelled": false, "context_overflow_skip": false, "a_later_field": {"x": 1}})
}

fn chunk(value: &Value) -> Value {
    json!({"perf_ns": 5, "packets": [{"name": "data", "value": value.to_string()}]})
}

fn done() -> Value {
    json!({"perf_ns": 9, "packets": [{"name": "data", "value": "[DONE]"}]})
}

fn text(text: &str) -> Value {
    chunk(&json!({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}]}))
}

fn client() -> Value {
    json!({"metadata": metadata(), "metrics": {
        "request_latency": {"value": 100.5, "unit": "ms"},
        "time_to_first_token": {"value": 0.02, "unit": "sec"},
        "inter_token_latency": {"value": null, "unit": "ms"},
        "output_sequence_length": {"value": 2, "unit": "tokens"},
        "inter_chunk_latency": {"value": [1.0, 2.0], "unit": "ms"}}})
}

fn raw() -> Value {
    json!({"metadata": metadata(), "start_perf_ns": 4,
        "request_headers": {"X-Request-ID": "r1", "X-Session-Affinity": "<redacted>"},
        "status": 200,
        "payload": {"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}],
            "model": "m", "stream": true, "temperature": 0, "max_tokens": 48},
        "responses": [text("Good"), text(" day"),
            chunk(&json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})),
            chunk(&json!({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}, "timings": {}})),
            done()]})
}

/// Reads lines of both exports as if they were the files.
fn read(client: &str, raw: &str, usage_tokens: bool) -> Observed {
    let mut seen = Observations::new(usage_tokens, &|_| Ok(None));
    let entries = Entries::<_, ClientRecord>::new(client.as_bytes(), Path::new("profile_export.jsonl"));
    seen.add_all(entries, |seen, place, record| seen.add_client(place, &record)).unwrap();
    let entries = Entries::<_, RawRecord>::new(raw.as_bytes(), Path::new("profile_export_raw.jsonl"));
    seen.add_all(entries, Observations::add_raw).unwrap();
    seen.finish(Vec::new(), None)
}

fn one(client: &Value, raw: &Value) -> Sent {
    let observed = read(&format!("{client}\n"), &format!("{raw}\n"), true);
    assert_eq!(observed.faults, []);
    let [sent] = observed.sent.try_into().unwrap();
    sent
}

/// The answer of the raw record after one change, and what the client says.
fn outcome(error: Option<Value>, change: impl FnOnce(&mut Value)) -> Outcome {
    let (mut client, mut raw) = (client(), raw());
    if let Some(error) = error {
        client["error"] = error.clone();
        client["metrics"] = json!({"error_isl": {"value": 5, "unit": "tokens"}});
        raw["error"] = error;
    }
    change(&mut raw);
    let sent = one(&client, &raw);
    assert_eq!(sent.conflicts, [""; 0]);
    sent.outcome()
}

#[test]
fn a_request_is_put_together_from_both_exports() {
    let sent = one(&client(), &raw());
    assert_eq!(sent.outcome(), Outcome::Answered);
    assert_eq!(sent.phase, Phase::Profiling);
    assert_eq!(sent.output_text.as_deref(), Some("Good day"));
    assert_eq!(sent.finish_reason.as_deref(), Some("stop"));
    assert_eq!(sent.text_digest, Some(Digest::of("Hello")), "the last message of the user");
    assert_eq!(sent.prompt_tokens, Some(TokenCount { tokens: 7, counted_by: CountedBy::Engine }));
    assert_eq!(sent.client.end_to_end_ms, Some(100.5));
    assert_eq!(sent.client.first_token_ms, Some(20.0), "seconds became milliseconds");
    assert_eq!(sent.client.inter_token_ms, None);
    assert_eq!(sent.lines, Lines { client: 1, raw: 1 });
}

#[test]
fn the_engines_token_counts_are_left_out_where_they_cannot_be_trusted() {
    let observed = read(&format!("{}\n", client()), &format!("{}\n", raw()), false);
    let sent = &observed.sent[0];
    assert_eq!(sent.prompt_tokens, None);
    assert_eq!(sent.output_tokens, Some(TokenCount { tokens: 2, counted_by: CountedBy::Client }));
}

#[test]
fn the_later_generation_with_source_kind_is_read() {
    let (mut client, mut raw) = (client(), raw());
    for line in [&mut client, &mut raw] {
        line["metadata"]["source_kind"] = json!("coding");
        line["metadata"]["conversation_id"] = json!("d41d8cd98f00b204e9800998ecf8427e");
    }
    let sent = one(&client, &raw);
    assert_eq!(sent.conversation_id.as_deref(), Some("d41d8cd98f00b204e9800998ecf8427e"));
    assert_eq!(sent.conflicts, [""; 0]);
}

#[test]
fn a_body_that_was_not_streamed_is_read() {
    let body = json!({"choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"},
        "finish_reason": "length"}], "usage": {"prompt_tokens": 1, "completion_tokens": 1}});
    let mut raw = raw();
    raw["responses"] = json!([{"perf_ns": 9, "text": body.to_string(), "content_type": "application/json"}]);
    let sent = one(&client(), &raw);
    assert_eq!((sent.outcome(), sent.output_text.as_deref()), (Outcome::Answered, Some("Hi")));
    raw["responses"][0]["text"] = json!("<html>");
    assert_eq!(one(&client(), &raw).outcome(), Outcome::Failed(FailureKind::Unreadable));
}

#[test]
fn only_the_first_choice_is_the_output_and_reasoning_stands_apart() {
    let mut raw = raw();
    raw["payload"]["n"] = json!(2);
    raw["responses"] = json!([
        chunk(&json!({"choices": [{"index": 1, "delta": {"content": "other"}}]})),
        chunk(&json!({"choices": [{"index": 0, "delta": {"reasoning_content": "hm", "reasoning": "hm"}}]})),
        text("mine"),
        done()
    ]);
    let sent = one(&client(), &raw);
    assert_eq!((sent.output_text.as_deref(), sent.choices), (Some("mine"), Some(2)));
    assert_eq!(sent.reasoning_digest, Some(Digest::of("hm")));
}

#[test]
fn a_prompt_of_parts_and_a_bare_prompt_are_texts() {
    let mut raw = raw();
    raw["payload"]["messages"][1]["content"] =
        json!([{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]);
    assert_eq!(one(&client(), &raw).text_digest, Some(Digest::of("Hello")));
    raw["payload"] = json!({"prompt": "Hello", "model": "m"});
    assert_eq!(one(&client(), &raw).text_digest, Some(Digest::of("Hello")));
    raw["payload"]["messages"] = json!(5);
    assert_eq!(read("", &format!("{raw}\n"), true).faults.len(), 1);
}

#[test]
fn a_failed_stream_behind_http_200_is_a_failure() {
    let in_band = |raw: &mut Value| {
        raw["responses"] =
            json!([text("Go"), chunk(&json!({"error": {"message": "worker died", "code": 500}}))]);
    };
    assert_eq!(outcome(None, in_band), Outcome::Failed(FailureKind::InBand));
    let event = |raw: &mut Value| {
        raw["responses"] =
            json!([text("Go"), {"perf_ns": 1, "packets": [{"name": "event", "value": "error"}]}]);
    };
    assert_eq!(outcome(None, event), Outcome::Failed(FailureKind::InBand));
    let error = json!({"code": 502, "type": "SSEResponseError", "message": "Error occurred in SSE response"});
    assert_eq!(outcome(Some(error), |_| ()), Outcome::Failed(FailureKind::InBand));
}

#[test]
fn a_stream_that_was_cut_is_a_failure_though_the_client_saw_none() {
    let cut = |raw: &mut Value| drop(raw["responses"].as_array_mut().unwrap().pop());
    assert_eq!(outcome(None, cut), Outcome::Failed(FailureKind::CutStream));
    let unreadable = |raw: &mut Value| raw["responses"][1]["packets"][0]["value"] = json!("{\"choices\": [");
    assert_eq!(outcome(None, unreadable), Outcome::Failed(FailureKind::CutStream));
    let nothing = |raw: &mut Value| raw["responses"] = json!([]);
    assert_eq!(outcome(None, nothing), Outcome::Failed(FailureKind::Unreadable));
}

#[test]
fn a_failing_status_names_the_kind_of_failure() {
    let table = [
        (429, "Too Many Requests", FailureKind::TooManyRequests),
        (404, "Not Found", FailureKind::ClientError),
        (500, "Internal Server Error", FailureKind::ServerError),
    ];
    for (status, reason, kind) in table {
        let error = json!({"code": status, "type": reason, "message": "no"});
        let refused = |raw: &mut Value| {
            raw["status"] = json!(status);
            raw["responses"] = json!([]);
        };
        assert_eq!(outcome(Some(error.clone()), refused), Outcome::Failed(kind), "{status}");
        let mut client = client();
        client["error"] = error;
        let alone = read(&format!("{client}\n"), "", true);
        assert_eq!(alone.sent[0].outcome(), Outcome::Failed(kind), "{status} without the raw export");
    }
    let refused = |raw: &mut Value| drop(raw.as_object_mut().unwrap().shift_remove("status"));
    let error = json!({"type": "ClientConnectorError", "message": "refused"});
    assert_eq!(outcome(Some(error), refused), Outcome::Failed(FailureKind::Transport));
    let error = json!({"type": "ClientPayloadError", "message": "not completed"});
    assert_eq!(outcome(Some(error), |_| ()), Outcome::Failed(FailureKind::Transport));
}

#[test]
fn cancellation_shows_in_three_ways_and_is_never_an_error() {
    let by_type = json!({"type": "RequestCancellationError", "message": "cancelled"});
    let by_code = json!({"code": 499, "type": "Client Closed Request", "message": "cancelled"});
    for error in [by_type, by_code] {
        assert_eq!(outcome(Some(error), |_| ()), Outcome::Cancelled);
    }
    let (mut client, mut raw) = (client(), raw());
    for line in [&mut client, &mut raw] {
        line["metadata"]["was_cancelled"] = json!(true);
    }
    assert_eq!(one(&client, &raw).outcome(), Outcome::Cancelled);
}

#[test]
fn an_answer_without_text_is_empty_whatever_the_client_calls_it() {
    let empty = |raw: &mut Value| raw["responses"] = json!([chunk(&json!({"choices": []})), done()]);
    assert_eq!(outcome(None, empty), Outcome::Empty);
    let error = json!({"type": "InvalidInferenceResultError", "message": "Invalid inference result"});
    assert_eq!(outcome(Some(error), empty), Outcome::Empty);
}

#[test]
fn a_prompt_that_did_not_fit_is_told_apart() {
    let (mut client, mut raw) = (client(), raw());
    for line in [&mut client, &mut raw] {
        line["metadata"]["context_overflow_skip"] = json!(true);
    }
    assert_eq!(one(&client, &raw).outcome(), Outcome::Failed(FailureKind::ContextOverflow));
}

#[test]
fn lines_that_contradict_each_other_are_conflicts() {
    let conflicts = |client: &[Value], raw: &[Value]| {
        let lines =
            |values: &[Value]| values.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n") + "\n";
        read(&lines(client), &lines(raw), true).sent.remove(0).conflicts
    };
    let mut header = raw();
    header["request_headers"]["X-Request-ID"] = json!("r2");
    assert_eq!(conflicts(&[client()], &[header]), ["the X-Request-ID header was another id"]);
    let mut moved = raw();
    moved["metadata"]["request_start_ns"] = json!(9);
    assert_eq!(conflicts(&[client()], &[moved]), ["its lines have different metadata"]);
    let mut text = raw();
    text["payload"]["messages"][1]["content"] = json!("Other");
    assert_eq!(conflicts(&[client()], &[raw(), text]), ["its lines in the raw export differ"]);
    let mut slower = client();
    slower["metrics"]["request_latency"]["value"] = json!(1.0);
    assert_eq!(conflicts(&[client(), slower], &[raw()]), ["its lines in the per-request export differ"]);
    assert_eq!(conflicts(&[client(), client()], &[raw(), raw()]), [""; 0], "equal lines are duplicates");
}

#[test]
fn a_record_without_an_id_is_a_fault_at_its_line() {
    let mut client = client();
    client["metadata"].as_object_mut().unwrap().shift_remove("x_request_id");
    let observed = read(&format!("\n{client}\n"), "", true);
    assert_eq!(observed.sent, []);
    assert_eq!((observed.faults[0].line, observed.faults[0].kind), (Some(2), FaultKind::WithoutId));
}

#[test]
fn fields_that_cannot_be_right_are_a_fault_at_their_line() {
    let refuse = |_: &Value| Err("timings are odd".to_owned());
    let mut seen = Observations::new(true, &refuse);
    let raw = format!("{}\n", raw());
    let entries = Entries::<_, RawRecord>::new(raw.as_bytes(), Path::new("raw.jsonl"));
    seen.add_all(entries, Observations::add_raw).unwrap();
    let faults = seen.finish(Vec::new(), None).faults;
    assert_eq!(faults[0].to_string(), "raw.jsonl line 1: timings are odd");
}

#[test]
fn settings_are_kept_once_and_apart_from_messages() {
    let (mut second, mut third) = (raw(), raw());
    second["metadata"]["x_request_id"] = json!("r2");
    third["payload"]["max_tokens"] = json!(9);
    let observed = read("", &format!("{}\n{second}\n{third}\n", raw()), true);
    let caps: Vec<_> = observed.request_settings.iter().map(|settings| &settings["max_tokens"]).collect();
    assert_eq!(caps, [48, 9]);
    assert!(observed.request_settings.iter().all(|settings| settings.get("messages").is_none()));
}
