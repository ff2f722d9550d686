use super::*;
use crate::evidence::request::{ClientTimes, CountedBy, TokenCount};

/// An answered row, 100 ms end to end, of an engine that times its stages.
pub(in crate::evidence) fn row(id: &str, category: &str) -> Row {
    Row {
        row: id.to_owned(),
        category: category.to_owned(),
        turn: 0,
        request_id: format!("request-{id}"),
        phase: Phase::Profiling,
        outcome: Outcome::Answered,
        sent_text_digest: None,
        payload_digest: None,
        matches_pinned: true,
        output_text: Some("text".to_owned()),
        output_digest: None,
        finish_reason: None,
        choices: None,
        prompt_tokens: None,
        output_tokens: Some(TokenCount { tokens: 10, counted_by: CountedBy::Engine }),
        start_ns: 1_000_000_000,
        end_ns: 3_000_000_000,
        client: ClientTimes {
            end_to_end_ms: Some(100.0),
            first_token_ms: Some(20.0),
            inter_token_ms: Some(8.0),
        },
        engine: vec![EngineTimes {
            scope: "llama_cpp_timings".to_owned(),
            call_ms: None,
            prompt_ms: Some(15.0),
            decode_ms: Some(80.0),
            decode_tokens: Some(10),
            queue_ms: None,
        }],
        engine_fields: None,
    }
}

#[test]
fn percentiles_are_interpolated_between_neighbours() {
    let table: [(&[f64], f64, f64); 8] = [
        (&[7.0], 99.0, 7.0),
        (&[1.0, 2.0, 3.0, 4.0], 50.0, 2.5),
        (&[1.0, 2.0, 3.0, 4.0], 90.0, 3.7),
        (&[1.0, 2.0, 3.0], 50.0, 2.0),
        (&[1.0, 2.0, 3.0], 0.0, 1.0),
        (&[1.0, 2.0, 3.0], 100.0, 3.0),
        (&[0.0, 10.0], 95.0, 9.5),
        (&[0.0, 10.0], 99.0, 9.9),
    ];
    for (values, p, expected) in table {
        assert!((percentile(values, p) - expected).abs() < 1e-12, "{values:?} at {p}");
    }
    assert!(percentile(&[], 50.0).is_nan());
}

#[test]
fn a_distribution_takes_values_in_any_order_and_leaves_out_what_is_no_number() {
    let found = Distribution::of([4.0, f64::NAN, 2.0, f64::INFINITY, 6.0], "ms").unwrap();
    assert_eq!((found.count, found.min, found.p50, found.max), (3, 2.0, 4.0, 6.0));
    assert!((found.mean - 4.0).abs() < 1e-12);
    assert!((found.std - (8.0_f64 / 3.0).sqrt()).abs() < 1e-12, "of the population");
    assert_eq!(found.unit, "ms");
    assert_eq!(Distribution::of([f64::NAN], "ms"), None);
}

#[test]
fn only_answered_requests_of_the_measured_phase_count() {
    let mut rows = vec![row("a", "math"), row("b", "math"), row("c", "math"), row("d", "coding")];
    rows[1].phase = Phase::Warmup;
    rows[1].client.end_to_end_ms = Some(9_999.0);
    rows[2].outcome = Outcome::Empty;
    rows[2].client.end_to_end_ms = Some(9_999.0);
    let timings = timings(&rows);
    assert_eq!((timings.total.requests, timings.categories["math"].requests), (2, 1));
    assert_eq!(timings.total.client.end_to_end_ms.value().unwrap().max.to_bits(), 100.0_f64.to_bits());
}

#[test]
fn client_and_engine_columns_stand_apart_and_scopes_are_never_mixed() {
    let mut rows = vec![row("a", "math"), row("b", "math")];
    let call = |scope: &str, call_ms| EngineTimes {
        scope: scope.to_owned(),
        call_ms: Some(call_ms),
        ..EngineTimes::default()
    };
    rows[0].engine = vec![call("public_task_call_wall", 90.0)];
    rows[1].engine = vec![call("public_task_stream_wall_including_backpressure", 95.0)];
    let timings = timings(&rows);
    let engine = timings.total.engine.value().unwrap();
    let calls: Vec<_> =
        engine.iter().map(|e| (e.scope.as_str(), e.requests, e.call_ms.value().unwrap().max)).collect();
    assert_eq!(
        calls,
        [("public_task_call_wall", 1, 90.0), ("public_task_stream_wall_including_backpressure", 1, 95.0)]
    );
    assert_eq!(engine[0].prompt_ms.reason(), Some("not part of what this scope reports"));
    assert_eq!(timings.total.client.end_to_end_ms.value().unwrap().count, 2);
}

#[test]
fn the_decode_stage_is_divided_by_its_tokens() {
    let timings = timings(&[row("a", "math")]);
    let engine = &timings.total.engine.value().unwrap()[0];
    assert!((engine.decode_per_token_ms.value().unwrap().p50 - 8.0).abs() < 1e-12);
    let none = EngineTimes { decode_ms: Some(1.0), decode_tokens: Some(0), ..EngineTimes::default() };
    assert_eq!(none.decode_per_token_ms(), None);
}

#[test]
fn a_column_without_values_says_why() {
    let mut one = row("a", "math");
    one.client.first_token_ms = None;
    one.engine.clear();
    one.output_tokens = None;
    let mut other = row("b", "coding");
    other.outcome = Outcome::Cancelled;
    let timings = timings(&[one, other]);
    let reason = timings.total.client.first_token_ms.reason().unwrap();
    assert!(reason.contains("not streamed"), "{reason}");
    assert_eq!(timings.total.engine.reason(), Some("the engine reported no times"));
    let coding = &timings.categories["coding"];
    assert_eq!(coding.client.end_to_end_ms.reason(), Some("no measured request was answered"));
    assert_eq!(coding.engine.reason(), Some("no measured request was answered"));
    let window = timings.window.value().unwrap();
    assert_eq!(window.output_tokens_per_second.reason(), Some("not every answer has a token count"));
}

#[test]
fn the_window_spans_the_counted_requests() {
    let mut rows = vec![row("a", "math"), row("b", "math"), row("w", "math")];
    rows[1].end_ns = 5_000_000_000;
    rows[2].phase = Phase::Warmup;
    rows[2].start_ns = 0;
    let timings = timings(&rows);
    let window = timings.window.value().unwrap();
    assert_eq!((window.start_ns, window.end_ns), (1_000_000_000, 5_000_000_000));
    assert_eq!(window.output_tokens, Measured::Value(20));
    assert_eq!(window.output_tokens_per_second, Measured::Value(5.0));
}
