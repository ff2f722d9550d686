//! From what AIPerf wrote to the evidence: real exports, and every way to
//! damage them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

use orchestrate::aiperf::{Observed, observe};
use orchestrate::engine::llama_cpp_fields;
use orchestrate::evidence::acceptance::NoAcceptance;
use orchestrate::evidence::correlation::{Correlation, Inputs, correlate};
use orchestrate::evidence::outcome::{FailureKind, Outcome};
use orchestrate::evidence::request::{FaultKind, Planned};
use orchestrate::evidence::warmup::{Warmup, WarmupRequest};
use orchestrate::evidence::{Mode, accounting};
use orchestrate::value::Digest;
use serde_json::Value;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/aiperf-0.13.0").join(name)
}

fn planned(root: &Path) -> Vec<Planned> {
    let text = |row: &Value, field: &str| row[field].as_str().unwrap().to_owned();
    fs::read_to_string(root.join("planned.jsonl"))
        .unwrap()
        .lines()
        .map(|line| {
            let row: Value = serde_json::from_str(line).unwrap();
            Planned {
                row: text(&row, "row"),
                turn: 0,
                category: text(&row, "category"),
                text_digest: Digest::of(text(&row, "text")),
            }
        })
        .collect()
}

fn observed(root: &Path) -> Observed {
    observe(root, true, &|last| llama_cpp_fields::parse(last).map_err(|error| error.to_string())).unwrap()
}

fn correlation(root: &Path) -> Correlation {
    let observed = observed(root);
    let warmup = Warmup {
        schema_version: 1,
        configured: 1,
        requests: vec![WarmupRequest {
            request_id: "warmup-1".to_owned(),
            status: 200,
            took_ms: 9.0,
            answer_characters: 4,
        }],
        machine: None,
    };
    correlate(&Inputs {
        mode: Mode::Ordinary,
        selection_digest: Digest::of("selection"),
        accounting: accounting::Inputs {
            planned: &planned(root),
            placeholder_rows: 0,
            sent: &observed.sent,
            faults: &observed.faults,
            report: observed.report.as_ref(),
            warmup: &warmup,
            probes: &[],
            server: None,
        },
        request_settings: &observed.request_settings,
        no_field_because: None,
        scrape: Err(NoAcceptance::NoScrape),
    })
}

/// The ordinary export in a directory of its own, to be damaged.
struct Copy(tempfile::TempDir);

const CLIENT: &str = "profile_export.jsonl";
const RAW: &str = "profile_export_raw.jsonl";

impl Copy {
    fn of(name: &str) -> Self {
        let copy = tempfile::tempdir().unwrap();
        for entry in fs::read_dir(fixture(name)).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
            }
        }
        Self(copy)
    }

    fn bytes(&self, file: &str) -> Vec<u8> {
        fs::read(self.0.path().join(file)).unwrap()
    }

    fn write(&self, file: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.0.path().join(file), bytes).unwrap();
    }

    fn lines(&self, file: &str) -> Vec<Value> {
        let text = String::from_utf8(self.bytes(file)).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn write_lines(&self, file: &str, lines: &[Value]) {
        self.write(file, lines.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n") + "\n");
    }

    fn complete(&self) -> bool {
        correlation(self.0.path()).accounting.complete().is_ok()
    }
}

#[test]
fn a_real_run_that_went_well_is_complete_and_correlated() {
    let correlation = correlation(&fixture("ordinary"));
    assert_eq!(correlation.accounting.complete(), Ok(()));
    assert!(correlation.accounting.balanced);
    assert_eq!(correlation.rows.len(), 5);
    for row in &correlation.rows {
        assert!(row.matches_pinned, "{}", row.row);
        assert_eq!(row.outcome, Outcome::Answered);
        assert_eq!(row.finish_reason.as_deref(), Some("length"));
        assert_eq!(row.output_tokens.unwrap().tokens, 48);
        assert_eq!(row.engine_fields.as_ref().unwrap().predicted_tokens, Some(48));
    }
    let first = &correlation.rows[0];
    assert_eq!((first.row.as_str(), first.category.as_str()), ("81", "writing"));
    assert_eq!(first.request_id, "09c1580f-6e6c-4dbb-9fa6-a53bf098fc77");
    assert_eq!(first.output_text.as_deref().map(|text| &text[..2]), Some("As"));
    let engine = correlation.timings.total.engine.value().unwrap();
    assert_eq!((engine.len(), engine[0].scope.as_str()), (1, "llama_cpp_timings"));
    assert_eq!(correlation.timings.total.client.first_token_ms.value().unwrap().count, 5);
    assert_eq!(correlation.warnings, ["5 answers ended at the token limit and not by themselves"]);
    assert_eq!(correlation.request_settings.len(), 1);
}

#[test]
fn acceptance_of_an_ordinary_run_is_unavailable_and_not_zero() {
    let acceptance = correlation(&fixture("ordinary")).acceptance;
    assert_eq!(acceptance.per_request.reason(), Some("speculation was off"));
    assert_eq!(acceptance.server.reason(), Some("speculation was off"));
    assert_eq!(acceptance.first(), Err(NoAcceptance::SpeculationOff));
}

#[test]
fn a_correlation_reads_back_what_it_wrote_and_fits_its_schema() {
    let correlation = correlation(&fixture("killed"));
    let json = serde_json::to_string(&correlation).unwrap();
    let read: Correlation = serde_json::from_str(&json).unwrap();
    assert!(read == correlation, "{json}");
    assert_eq!(serde_json::to_string(&read).unwrap(), json);
    let schema = schemars::schema_for!(Correlation);
    let required = schema.get("required").unwrap().as_array().unwrap();
    assert!(required.contains(&Value::from("schema_version")));
}

#[test]
fn a_server_that_was_killed_leaves_failures_though_aiperf_calls_the_run_complete() {
    let accounting = correlation(&fixture("killed")).accounting;
    let report = accounting.report.as_ref().unwrap();
    assert_eq!((report.is_complete, report.partial), (Some(true), Some(false)));
    let totals = &accounting.totals;
    assert_eq!((totals.sent_once, totals.answered, totals.failed), (5, 2, 3));
    assert_eq!(totals.failures[&FailureKind::Transport], 3);
    assert_eq!(accounting.error_rate(), Some(0.6));
    assert_eq!(accounting.complete(), Ok(()), "all five are accounted for");
}

#[test]
fn a_cut_answer_keeps_its_text_and_is_no_answer() {
    let correlation = correlation(&fixture("killed"));
    let cut = &correlation.rows[2];
    assert_eq!(cut.outcome, Outcome::Failed(FailureKind::Transport));
    assert!(!cut.output_text.as_ref().unwrap().is_empty());
    assert_eq!(correlation.timings.total.requests, 2);
}

#[test]
fn a_run_without_a_server_is_read_from_what_it_left() {
    let accounting = correlation(&fixture("dead")).accounting;
    assert_eq!((accounting.totals.profiling, accounting.totals.failed), (2, 2));
    let kinds: Vec<FaultKind> = accounting.faults.iter().map(|fault| fault.kind).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == FaultKind::MissingFile).count(), 3);
    assert!(kinds.contains(&FaultKind::Leftover));
    assert!(accounting.complete().is_err());
}

#[test]
fn a_directory_that_is_not_there_is_an_error_that_names_it() {
    let missing = fixture("nowhere");
    let error = observe(&missing, true, &|_| Ok(None)).unwrap_err().to_string();
    assert!(error.contains("nowhere"), "{error}");
}

#[test]
fn the_copy_that_is_damaged_below_is_complete() {
    assert!(Copy::of("ordinary").complete());
}

#[test]
fn an_export_truncated_at_any_byte_is_never_complete() {
    let copy = Copy::of("ordinary");
    for file in [CLIENT, RAW] {
        let whole = copy.bytes(file);
        let ends = whole.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at);
        let near_ends = ends.flat_map(|end| end.saturating_sub(2)..(end + 3).min(whole.len()));
        for cut in near_ends.chain((0..whole.len()).step_by(197)) {
            copy.write(file, &whole[..cut]);
            assert!(!copy.complete(), "{file} cut at byte {cut} of {}", whole.len());
        }
        copy.write(file, whole);
    }
    assert!(copy.complete());
}

#[test]
fn an_export_with_a_line_dropped_or_doubled_is_never_complete() {
    let copy = Copy::of("ordinary");
    for files in [&[CLIENT][..], &[RAW], &[CLIENT, RAW]] {
        let whole: Vec<Vec<Value>> = files.iter().map(|file| copy.lines(file)).collect();
        for at in 0..5 {
            for (file, lines) in files.iter().zip(&whole) {
                copy.write_lines(file, &[&lines[..at], &lines[at + 1..]].concat());
            }
            assert!(!copy.complete(), "line {at} of {files:?} dropped");
            for (file, lines) in files.iter().zip(&whole) {
                copy.write_lines(file, &[&lines[..], &lines[at..=at]].concat());
            }
            assert!(!copy.complete(), "line {at} of {files:?} doubled");
        }
        for (file, lines) in files.iter().zip(&whole) {
            copy.write_lines(file, lines);
        }
    }
    assert!(copy.complete());
}

#[test]
fn an_export_with_two_ids_swapped_is_never_complete() {
    let copy = Copy::of("ordinary");
    let swaps = [
        (CLIENT, "/metadata/x_request_id"),
        (RAW, "/metadata/x_request_id"),
        (RAW, "/request_headers/X-Request-ID"),
        (CLIENT, "/metadata/conversation_id"),
        (RAW, "/metadata"),
    ];
    for (file, pointer) in swaps {
        let whole = copy.lines(file);
        for (one, other) in (0..5).flat_map(|one| (0..one).map(move |other| (one, other))) {
            let mut lines = whole.clone();
            let value = lines[one].pointer(pointer).unwrap().clone();
            let swapped = lines[other].pointer(pointer).unwrap().clone();
            *lines[one].pointer_mut(pointer).unwrap() = swapped;
            *lines[other].pointer_mut(pointer).unwrap() = value;
            copy.write_lines(file, &lines);
            assert!(!copy.complete(), "{file} {pointer} of lines {one} and {other}");
        }
        copy.write_lines(file, &whole);
    }
    assert!(copy.complete());
}

#[test]
fn the_order_of_lines_changes_nothing() {
    let copy = Copy::of("ordinary");
    let before = correlation(copy.0.path());
    for file in [CLIENT, RAW] {
        let mut lines = copy.lines(file);
        lines.reverse();
        copy.write_lines(file, &lines);
    }
    assert!(correlation(copy.0.path()) == before);
}

#[test]
fn an_export_without_one_of_its_files_is_never_complete() {
    for file in [CLIENT, RAW, "profile_export_aiperf.json", ".aiperf_results_ready.json"] {
        let copy = Copy::of("ordinary");
        fs::remove_file(copy.0.path().join(file)).unwrap();
        assert!(!copy.complete(), "without {file}");
    }
}

#[test]
fn aiperf_that_ended_with_success_and_a_partial_export_is_never_complete() {
    let copy = Copy::of("ordinary");
    let ready = ".aiperf_results_ready.json";
    for partial in [
        r#"{"ready":false,"was_cancelled":false,"partial":false}"#,
        r#"{"ready":true,"was_cancelled":true,"partial":false}"#,
        r#"{"ready":true,"was_cancelled":false,"partial":true}"#,
    ] {
        copy.write(ready, partial);
        assert!(!copy.complete(), "{partial}");
    }
    let copy = Copy::of("ordinary");
    let aggregate = copy.bytes("profile_export_aiperf.json");
    let aggregate: Value = serde_json::from_slice(&aggregate).unwrap();
    for (field, value) in [
        ("is_complete", Value::Bool(false)),
        ("was_cancelled", Value::Bool(true)),
        ("request_count", serde_json::json!({"unit": "requests", "avg": 4.0})),
        ("error_request_count", serde_json::json!({"unit": "requests", "avg": 1.0})),
    ] {
        let mut changed = aggregate.clone();
        changed[field] = value;
        copy.write("profile_export_aiperf.json", changed.to_string());
        assert!(!copy.complete(), "{field}");
    }
}
