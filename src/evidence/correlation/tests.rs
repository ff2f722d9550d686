use super::*;
use crate::evidence::acceptance::Counters;
use crate::evidence::request::Planned;
use crate::evidence::sample;
use crate::evidence::warmup::Warmup;

fn sent(id: &str, text: &str) -> Sent {
    Sent {
        start_ns: 1,
        end_ns: 2,
        payload_digest: Some(Digest::of("body")),
        finish_reason: None,
        output_text: Some(format!("about {text}")),
        client: ClientTimes { end_to_end_ms: Some(50.0), ..ClientTimes::default() },
        ..sample::sent(id, text)
    }
}

fn record(id: &str, scope: Option<&str>) -> ServerRecord {
    ServerRecord {
        request_id: id.to_owned(),
        status: Some(200),
        output_tokens: Some(4),
        handler_ms: Some(49.0),
        queue_ms: Some(0.5),
        model_call_ms: Some(40.0),
        timing_scope: scope.map(str::to_owned),
        prefill_ms: None,
        decode_ms: Some(36.0),
    }
}

fn speculative(id: &str, cached: u64) -> EngineFields {
    EngineFields {
        scope: format!("scope of {id}"),
        predicted_tokens: Some(8),
        cached_tokens: Some(cached),
        draft_tokens: Some(6),
        accepted_tokens: Some(3),
        ..EngineFields::default()
    }
}

fn correlated(sent: &[Sent], server: Option<&[ServerRecord]>, mode: Mode, settings: &[Value]) -> Correlation {
    let turn = |row: &str| Planned {
        row: row.to_owned(),
        turn: 0,
        category: "math".to_owned(),
        text_digest: Digest::of(row),
    };
    correlate(&Inputs {
        mode,
        selection_digest: Digest::of("selection"),
        accounting: accounting::Inputs {
            planned: &[turn("a"), turn("b")],
            placeholder_rows: 0,
            sent,
            faults: &[],
            report: None,
            warmup: &Warmup { schema_version: 1, configured: 0, requests: Vec::new(), machine: None },
            probes: &[],
            server,
        },
        request_settings: settings,
        no_field_because: None,
        scrape: Ok(Scrape {
            before: Counters::default(),
            after: Counters { drafts: 2, draft_tokens: 7, accepted_tokens: 3 },
        }),
    })
}

#[test]
fn rows_stand_in_the_order_of_the_selection_with_what_came_back() {
    let correlation = correlated(&[sent("2", "b"), sent("1", "a")], None, Mode::Ordinary, &[]);
    let rows: Vec<_> =
        correlation.rows.iter().map(|row| (row.row.as_str(), row.output_text.as_deref().unwrap())).collect();
    assert_eq!(rows, [("a", "about a"), ("b", "about b")]);
    assert_eq!(correlation.rows[0].output_digest, Some(Digest::of("about a")));
}

#[test]
fn a_turn_that_was_not_sent_has_no_row_and_one_sent_twice_has_two() {
    let rows = |sent: &[Sent]| correlated(sent, None, Mode::Ordinary, &[]).rows.len();
    assert_eq!(rows(&[sent("1", "a")]), 1);
    assert_eq!(rows(&[sent("1", "a"), sent("2", "a"), sent("3", "b")]), 3);
    assert_eq!(rows(&[sent("1", "something else")]), 0);
}

#[test]
fn the_servers_record_gives_engine_times_under_its_own_scope() {
    let records = [record("1", Some("public_task_call_wall")), record("2", None)];
    let correlation = correlated(&[sent("1", "a"), sent("2", "b")], Some(&records), Mode::Ordinary, &[]);
    let times = &correlation.rows[0].engine[0];
    assert_eq!((times.scope.as_str(), times.call_ms), ("public_task_call_wall", Some(40.0)));
    assert_eq!((times.prompt_ms, times.queue_ms), (None, Some(0.5)));
    assert_eq!(correlation.rows[1].engine, [], "a time without a scope says nothing");
}

#[test]
fn what_a_reader_must_know_is_a_warning() {
    let mut requests = [sent("1", "a"), sent("2", "b")];
    assert_eq!(correlated(&requests, None, Mode::Speculative, &[]).warnings, [""; 0]);
    requests[0].engine = Some(speculative("1", 5));
    requests[1].engine = Some(speculative("2", 0));
    requests[1].finish_reason = Some("length".to_owned());
    let settings = [Value::from(1), Value::from(2)];
    let warnings = correlated(&requests, None, Mode::Ordinary, &settings).warnings.join("\n");
    for words in [
        "speculation was to be off, and the engine's answers report drafted tokens",
        "speculation was to be off, and the engine's counters report verify steps",
        "1 answers ended at the token limit",
        "1 requests took part of their prompt from the engine's cache",
        "the engine's times have several scopes: scope of 1, scope of 2",
        "requests carried 2 different sets of settings",
        "draft_tokens: 12 by request, 7 by the server's counters",
    ] {
        assert!(warnings.contains(words), "{words:?} is not in\n{warnings}");
    }
}
