use super::*;
use crate::evidence::outcome::FailureKind;
use crate::evidence::request::{Failure, FaultKind, Lines};
use crate::evidence::sample;

/// A run of three rows, one of two turns, that went exactly as planned.
struct Run {
    planned: Vec<Planned>,
    placeholder_rows: u64,
    sent: Vec<Sent>,
    faults: Vec<ExportFault>,
    report: Option<ClientReport>,
    warmup: Warmup,
    probes: Vec<String>,
    server: Option<Vec<ServerRecord>>,
}

fn planned(row: &str, turn: u32, category: &str) -> Planned {
    let text_digest = Digest::of(format!("{row} {turn}"));
    Planned { row: row.to_owned(), turn, category: category.to_owned(), text_digest }
}

fn sent(id: &str, conversation: &str, turn: u32, text: &str) -> Sent {
    Sent { conversation_id: Some(conversation.to_owned()), turn_index: Some(turn), ..sample::sent(id, text) }
}

fn record(id: &str) -> ServerRecord {
    ServerRecord {
        request_id: id.to_owned(),
        status: Some(200),
        output_tokens: Some(2),
        handler_ms: Some(99.0),
        queue_ms: Some(0.0),
        model_call_ms: Some(98.0),
        timing_scope: Some("public_task_call_wall".to_owned()),
        prefill_ms: None,
        decode_ms: None,
    }
}

fn warmup_request(id: &str) -> WarmupRequest {
    WarmupRequest { request_id: id.to_owned(), status: 200, took_ms: 5.0, answer_characters: 3 }
}

fn as_planned() -> Run {
    Run {
        planned: vec![
            planned("a", 0, "math"),
            planned("b", 0, "math"),
            planned("c", 0, "coding"),
            planned("c", 1, "coding"),
        ],
        placeholder_rows: 0,
        sent: vec![
            sent("r1", "session_0", 0, "a 0"),
            sent("r2", "session_1", 0, "b 0"),
            sent("r3", "c", 0, "c 0"),
            sent("r4", "c", 1, "c 1"),
        ],
        faults: Vec::new(),
        report: Some(ClientReport {
            version: Some("0.13.0".to_owned()),
            is_complete: Some(true),
            was_cancelled: Some(false),
            partial: Some(false),
            valid_requests: 4,
            failed_requests: 0,
        }),
        warmup: Warmup {
            schema_version: 1,
            configured: 2,
            requests: vec![warmup_request("w1"), warmup_request("w2")],
            machine: None,
        },
        probes: vec!["p1".to_owned()],
        server: Some(["p1", "w1", "w2", "r1", "r2", "r3", "r4"].map(record).to_vec()),
    }
}

impl Run {
    fn account(&self) -> Accounting {
        account(&Inputs {
            planned: &self.planned,
            placeholder_rows: self.placeholder_rows,
            sent: &self.sent,
            faults: &self.faults,
            report: self.report.as_ref(),
            warmup: &self.warmup,
            probes: &self.probes,
            server: self.server.as_deref(),
        })
    }

    fn records(&mut self) -> &mut Vec<ServerRecord> {
        self.server.as_mut().unwrap()
    }

    /// Makes request `at` fail, and the client's report say so.
    fn fail(&mut self, at: usize, kind: FailureKind, status: Option<u16>) {
        self.sent[at].failure = Some(Failure { kind, code: None, message: String::new() });
        self.sent[at].status = status;
        let report = self.report.as_mut().unwrap();
        report.valid_requests -= 1;
        report.failed_requests += 1;
    }
}

/// The problems of a planned run after one change.
fn problems(change: impl FnOnce(&mut Run)) -> Vec<String> {
    let mut run = as_planned();
    change(&mut run);
    run.account().complete().err().unwrap_or_default()
}

#[track_caller]
fn assert_told(change: impl FnOnce(&mut Run), words: &str) {
    let problems = problems(change);
    assert!(problems.iter().any(|problem| problem.contains(words)), "{words:?} is not in {problems:#?}");
}

#[test]
fn a_run_that_went_as_planned_is_balanced_and_complete() {
    let accounting = as_planned().account();
    assert_eq!(accounting.complete(), Ok(()));
    assert!(accounting.balanced);
    let totals = &accounting.totals;
    assert_eq!((totals.planned, totals.sent_once, totals.missing, totals.repeated), (4, 4, 0, 0));
    assert_eq!((totals.profiling, totals.matched, totals.answered), (4, 4, 4));
    assert_eq!(accounting.error_rate(), Some(0.0));
    let by: Vec<_> = accounting.turns.iter().map(|turn| turn.sendings[0].matched_by.unwrap()).collect();
    assert_eq!(by, [MatchedBy::Text, MatchedBy::Text, MatchedBy::RowId, MatchedBy::RowId]);
    let server = accounting.server.unwrap();
    assert_eq!((server.of_client, server.of_warmup, server.of_probes), (4, 2, 1));
}

#[test]
fn an_engine_without_records_is_accounted_for_by_the_client_alone() {
    assert_eq!(problems(|run| run.server = None), [""; 0]);
}

#[test]
fn an_accounting_reads_back_what_it_wrote() {
    let mut run = as_planned();
    run.fail(1, FailureKind::TooManyRequests, Some(429));
    let accounting = run.account();
    let json = serde_json::to_string(&accounting).unwrap();
    assert_eq!(serde_json::from_str::<Accounting>(&json).unwrap(), accounting);
}

mod the_plan {
    use super::*;

    #[test]
    fn every_turn_is_sent_exactly_once() {
        assert_told(|run| drop(run.sent.remove(0)), "1 planned turns were never sent: a turn 0");
        let again = |run: &mut Run| run.sent.push(sent("r5", "session_9", 0, "a 0"));
        assert_told(again, "1 planned turns were sent more than once: a turn 0");
        let mut run = as_planned();
        again(&mut run);
        let totals = run.account().totals;
        assert_eq!((totals.sent_once, totals.repeated, totals.matched), (3, 1, 5));
    }

    #[test]
    fn warmup_does_not_make_up_for_a_turn_that_was_not_measured() {
        let mut run = as_planned();
        run.sent[0].phase = Phase::Warmup;
        let accounting = run.account();
        assert_eq!((accounting.totals.missing, accounting.totals.warmup_phase), (1, 1));
        assert_eq!(accounting.turns[0].sendings.len(), 1);
        assert_eq!(accounting.turns[0].measured().count(), 0);
    }

    #[test]
    fn every_category_is_shown_present_and_complete() {
        let mut run = as_planned();
        run.sent.remove(3);
        run.fail(1, FailureKind::Transport, None);
        let categories = run.account().categories;
        let math = CategoryAccount { planned: 2, sent_once: 2, missing: 0, repeated: 0, answered: 1 };
        let coding = CategoryAccount { planned: 2, sent_once: 1, missing: 1, repeated: 0, answered: 1 };
        let expected = [("math".to_owned(), math), ("coding".to_owned(), coding)];
        assert!(categories.into_iter().eq(expected));
    }

    #[test]
    fn a_selection_has_turns_and_each_of_them_once() {
        assert_told(|run| run.planned.clear(), "no turn was planned");
        assert_told(|run| run.planned.push(planned("a", 0, "math")), "stand twice in the selection");
    }

    #[test]
    fn a_corpus_row_that_still_holds_placeholder_text_is_never_complete() {
        assert_told(|run| run.placeholder_rows = 1, "1 rows of the selection hold placeholder text");
        assert_told(|run| run.sent[0].placeholder = true, "1 requests held placeholder text");
    }

    #[test]
    fn rows_of_one_text_are_told_apart_by_time_and_said_to_be() {
        let mut run = as_planned();
        run.planned[1].text_digest = run.planned[0].text_digest;
        run.sent[1].text_digest = run.sent[0].text_digest;
        let accounting = run.account();
        assert_eq!(accounting.complete(), Ok(()));
        assert_eq!(accounting.shared_texts[0].turns, ["a turn 0", "b turn 0"]);
        assert_eq!(as_planned().account().shared_texts, []);
        run.sent.remove(1);
        assert_eq!(run.account().totals.missing, 1);
    }
}

mod the_texts {
    use super::*;

    #[test]
    fn the_text_sent_is_the_pinned_one() {
        let other = |run: &mut Run| run.sent[2].text_digest = Some(Digest::of("c 0 "));
        assert_told(other, "1 requests carried another text than the pinned one: r3");
    }

    #[test]
    fn a_text_that_was_not_recorded_proves_nothing() {
        assert_told(|run| run.sent[2].text_digest = None, "no record of the text that was sent: r3");
        assert_told(|run| run.sent[0].text_digest = None, "1 requests are no planned turn: r1");
    }

    #[test]
    fn an_unplanned_text_is_an_unmatched_request() {
        let other = |run: &mut Run| run.sent[0].text_digest = Some(Digest::of("something else"));
        assert_told(other, "1 requests are no planned turn: r1");
        let mut run = as_planned();
        other(&mut run);
        assert_eq!(run.account().totals.unmatched, 1);
    }

    #[test]
    fn a_text_sent_as_another_turn_is_no_match() {
        assert_told(|run| run.sent[0].turn_index = Some(1), "1 requests are no planned turn: r1");
        assert_eq!(problems(|run| run.sent[0].turn_index = None), [""; 0]);
    }
}

mod the_client {
    use super::*;

    #[test]
    fn warmup_records_are_never_counted_as_measurements() {
        assert_told(
            |run| {
                let mut extra = sent("x", "session_0", 0, "a 0");
                extra.phase = Phase::Warmup;
                run.sent.push(extra);
            },
            "1 requests are of the client's own warmup phase",
        );
        assert_told(|run| run.sent[0].phase = Phase::Other, "neither warmup nor profiling");
    }

    #[test]
    fn duplicate_lines_are_counted_and_are_not_a_second_sending() {
        let mut run = as_planned();
        run.sent[0].lines = Lines { client: 2, raw: 3 };
        let accounting = run.account();
        let totals = &accounting.totals;
        assert_eq!((totals.duplicate_client_lines, totals.duplicate_raw_lines), (1, 2));
        assert_eq!((totals.sent_once, totals.repeated), (4, 0));
        assert!(accounting.balanced);
        let problems = accounting.complete().unwrap_err();
        assert_eq!(
            problems,
            [
                "1 lines of the per-request export repeat a request id",
                "2 lines of the raw export repeat a request id"
            ]
        );
    }

    #[test]
    fn a_request_is_in_both_exports() {
        assert_told(|run| run.sent[0].lines.client = 0, "1 requests are in the raw export only");
        assert_told(|run| run.sent[0].lines.raw = 0, "1 requests are not in the raw export");
        assert_told(|run| run.sent[0].output_text = None, "1 requests have no recorded answer");
    }

    #[test]
    fn contradictions_and_faults_of_the_exports_are_told() {
        assert_told(|run| run.sent[0].conflicts.push("they differ".to_owned()), "request r1: they differ");
        assert_told(
            |run| {
                run.faults.push(ExportFault {
                    file: "profile_export.jsonl".to_owned(),
                    line: Some(3),
                    kind: FaultKind::Truncated,
                    detail: "the last line is cut".to_owned(),
                });
            },
            "the export is not whole: profile_export.jsonl line 3: the last line is cut",
        );
        assert_told(
            |run| {
                let mut other = run.sent[0].clone();
                other.output_text = Some("another answer".to_owned());
                run.sent.push(other);
            },
            "request r1: its records differ",
        );
    }

    #[test]
    fn success_with_a_report_that_says_otherwise_is_not_complete() {
        let report =
            |change: fn(&mut ClientReport)| move |run: &mut Run| change(run.report.as_mut().unwrap());
        assert_told(|run| run.report = None, "the client wrote no report");
        assert_told(report(|report| report.is_complete = Some(false)), "its run is complete");
        assert_told(report(|report| report.is_complete = None), "its run is complete");
        assert_told(report(|report| report.was_cancelled = Some(true)), "not cancelled");
        assert_told(report(|report| report.was_cancelled = None), "not cancelled");
        assert_told(report(|report| report.partial = Some(true)), "results are whole");
        assert_told(report(|report| report.partial = None), "results are whole");
    }

    #[test]
    fn client_report_and_export_agree_on_the_number_of_requests() {
        let mut run = as_planned();
        run.report.as_mut().unwrap().valid_requests = 5;
        let accounting = run.account();
        assert!(!accounting.balanced);
        assert_eq!(
            accounting.imbalances,
            ["measured requests in the export: 4, but requests that the client counted: 5"]
        );
    }
}

mod the_outcomes {
    use super::*;

    #[test]
    fn each_kind_of_failure_is_counted_apart() {
        let table = [
            (FailureKind::TooManyRequests, Some(429)),
            (FailureKind::ClientError, Some(404)),
            (FailureKind::ServerError, Some(500)),
            (FailureKind::InBand, Some(200)),
            (FailureKind::CutStream, Some(200)),
            (FailureKind::Transport, None),
        ];
        for (kind, status) in table {
            let mut run = as_planned();
            run.fail(0, kind, status);
            run.server = None;
            let accounting = run.account();
            assert_eq!(accounting.totals.failures, BTreeMap::from([(kind, 1)]));
            assert_eq!((accounting.totals.failed, accounting.unanswered()), (1, 1));
            assert_eq!(accounting.error_rate(), Some(0.25));
            assert_eq!(accounting.complete(), Ok(()), "failures are accounted for, and judged elsewhere");
        }
    }

    #[test]
    fn cancelled_requests_are_not_errors_and_errors_are_not_cancelled() {
        let mut run = as_planned();
        run.fail(0, FailureKind::ClientError, Some(499));
        run.sent[0].cancelled = true;
        run.fail(1, FailureKind::ServerError, Some(500));
        run.server = None;
        let totals = run.account().totals;
        assert_eq!((totals.cancelled, totals.failed), (1, 1));
        assert_eq!(totals.failures, BTreeMap::from([(FailureKind::ServerError, 1)]));
    }

    #[test]
    fn zero_tokens_that_came_back_are_not_an_answer() {
        let mut run = as_planned();
        run.sent[0].output_text = Some(String::new());
        let accounting = run.account();
        assert_eq!((accounting.totals.empty, accounting.totals.answered), (1, 3));
        assert_eq!(accounting.unanswered(), 1);
        run.sent[0].reasoning_digest = Some(Digest::of("thoughts"));
        assert_eq!(run.account().totals.answered, 4, "reasoning is an answer");
    }

    #[test]
    fn an_error_rate_needs_a_measured_request() {
        let mut run = as_planned();
        run.sent.clear();
        assert_eq!(run.account().error_rate(), None);
    }
}

mod the_warmup {
    use super::*;

    #[test]
    fn the_configured_warmup_happened() {
        assert_told(
            |run| drop(run.warmup.requests.pop()),
            "2 warmup requests were configured and 1 were sent",
        );
        assert_eq!(problems(|run| run.warmup.configured = 1), [""; 0], "more than configured is fine");
    }

    #[test]
    fn warmup_requests_are_answered_and_have_ids_of_their_own() {
        assert_told(|run| run.warmup.requests[0].status = 500, "1 warmup requests got no answer");
        assert_told(|run| run.warmup.requests[0].answer_characters = 0, "1 warmup requests got no answer");
        assert_told(
            |run| run.warmup.requests[0].request_id = "w2".to_owned(),
            "1 warmup requests share an id: w2",
        );
        assert_told(
            |run| run.warmup.requests[0].request_id = "r1".to_owned(),
            "1 warmup requests are among the measured ones: r1",
        );
    }
}

mod the_server {
    use super::*;

    #[test]
    fn records_of_nobody_and_requests_without_a_record_are_told() {
        assert_told(
            |run| run.records().push(record("x")),
            "1 server records belong to no request of ours: x",
        );
        assert_told(|run| run.records().retain(|r| r.request_id != "r2"), "have no server record: r2");
        assert_told(
            |run| run.records().retain(|r| r.request_id != "w1"),
            "warmup requests have no server record: w1",
        );
        assert_told(|run| run.records().push(record("r1")), "1 server records repeat a request id");
    }

    #[test]
    fn client_and_server_agree_on_each_status() {
        assert_told(
            |run| run.records()[3].status = Some(500),
            "request r1: answered for the client, HTTP 500 for the server",
        );
        assert_told(
            |run| run.fail(0, FailureKind::ServerError, Some(503)),
            "request r1: HTTP 503 for the client, HTTP 200 for the server",
        );
    }

    #[test]
    fn a_stream_that_failed_in_its_middle_is_a_failure_on_both_sides() {
        let problems = problems(|run| {
            run.fail(0, FailureKind::InBand, Some(200));
            run.records()[3].status = Some(500);
        });
        assert_eq!(problems, [""; 0]);
    }

    #[test]
    fn a_call_cannot_take_longer_than_the_client_waited() {
        assert_told(|run| run.records()[3].model_call_ms = Some(102.0), "longer than the client waited");
        assert_eq!(problems(|run| run.records()[3].model_call_ms = Some(100.9)), [""; 0]);
    }
}

mod whatever_happens_to_the_records {
    use super::*;

    #[test]
    fn dropping_one_is_never_complete() {
        for at in 0..4 {
            assert_ne!(problems(|run| drop(run.sent.remove(at))), [""; 0], "request {at}");
            assert_ne!(problems(|run| drop(run.planned.remove(at))), [""; 0], "turn {at}");
        }
        for at in 1..7 {
            assert_ne!(problems(|run| drop(run.records().remove(at))), [""; 0], "record {at}");
        }
    }

    #[test]
    fn duplicating_one_is_never_complete() {
        for at in 0..4 {
            assert_ne!(problems(|run| run.sent.push(run.sent[at].clone())), [""; 0], "request {at}");
        }
        for at in 0..7 {
            let again = |run: &mut Run| {
                let record = run.records()[at].clone();
                run.records().push(record);
            };
            assert_ne!(problems(again), [""; 0], "record {at}");
        }
    }

    #[test]
    fn swapping_two_texts_is_never_complete_and_swapping_two_rows_is_seen() {
        let problems = problems(|run| {
            let first = run.sent[2].text_digest;
            run.sent[2].text_digest = run.sent[3].text_digest;
            run.sent[3].text_digest = first;
        });
        assert_ne!(problems, [""; 0]);
    }

    #[test]
    fn their_order_changes_nothing() {
        let mut run = as_planned();
        run.sent[1].start_ns = 5_000;
        run.fail(2, FailureKind::Transport, None);
        let accounting = run.account();
        run.sent.reverse();
        run.records().reverse();
        run.warmup.requests.reverse();
        assert_eq!(run.account(), accounting);
    }

    #[test]
    fn a_document_whose_counts_were_changed_is_never_balanced() {
        let changes: [fn(&mut Totals); 16] = [
            |t| t.planned += 1,
            |t| t.sent_once -= 1,
            |t| t.missing += 1,
            |t| t.repeated += 1,
            |t| t.requests += 1,
            |t| t.warmup_phase += 1,
            |t| t.profiling -= 1,
            |t| t.matched -= 1,
            |t| t.unmatched += 1,
            |t| t.client_lines += 1,
            |t| t.raw_lines -= 1,
            |t| t.duplicate_client_lines += 1,
            |t| t.without_raw_line += 1,
            |t| t.answered -= 1,
            |t| t.failed += 1,
            |t| t.cancelled += 1,
        ];
        for (at, change) in changes.iter().enumerate() {
            let mut accounting = as_planned().account();
            change(&mut accounting.totals);
            assert!(accounting.complete().is_err(), "change {at}");
        }
        let mut accounting = as_planned().account();
        accounting.turns.pop();
        assert!(accounting.complete().is_err(), "a turn taken out");
    }
}
