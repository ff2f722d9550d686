//! How a document's facts become the text of a cell.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::corpus::Manifest;
use crate::evidence::acceptance::{Provenance, Quantities};
use crate::evidence::accounting::Totals;
use crate::evidence::audit::{Answer, Audit, Finding, Stage};
use crate::evidence::bundle::Setting;
use crate::evidence::correlation::Correlation;
use crate::evidence::ladder::Held;
use crate::evidence::load::Load;
use crate::evidence::matrix::Cell;
use crate::evidence::measured::Measured;
use crate::evidence::mode::Mode;
use crate::evidence::timing::{Columns, Distribution, EngineColumns};
use crate::evidence::validation::{Check, Validation};
use crate::node::subject::SubjectRecord;

/// Parts of a note, each on a line of its own where lines are kept.
const NEXT_PART: &str = ";\n";

/// The cell of a document, or why there is no document.
pub(super) fn of<T>(held: &Held<T>, cell: impl FnOnce(&T) -> Cell) -> Cell {
    match held {
        Ok(document) => cell(document),
        Err(reason) => Cell::unavailable(reason),
    }
}

/// The cell of a count that should be zero: what it is made of if it is not.
pub(super) fn count(value: u64, parts: &[(&str, u64)]) -> Cell {
    let parts: Vec<_> =
        parts.iter().filter(|(_, count)| *count > 0).map(|(name, count)| format!("{name} {count}")).collect();
    let cell = Cell::value(value.to_string());
    if parts.is_empty() { cell } else { cell.with_note(parts.join(", ")) }
}

/// What was served, with whatever else the target says of itself.
pub(super) fn model(about: &BTreeMap<String, String>, name: &str) -> Cell {
    let rest: Vec<_> = about
        .iter()
        .filter(|(key, _)| *key != "model")
        .map(|(key, value)| format!("{key} {value}"))
        .collect();
    let cell = Cell::value(name);
    if rest.is_empty() { cell } else { cell.with_note(rest.join(", ")) }
}

/// One setting, `requested → effective`.
pub(super) fn setting(settings: &[Setting], name: &str) -> Cell {
    let Some(setting) = settings.iter().find(|setting| setting.name == name) else {
        return Cell::unavailable("nothing shows it");
    };
    match &setting.effective {
        Some(_) => Cell::value(arrow(setting)).with_note(format!("effective by {}", setting.shown_by)),
        None => {
            Cell::unavailable(format!("requested {}; {} shows nothing", requested(setting), setting.shown_by))
        }
    }
}

/// Several settings, each `requested → effective`.
pub(super) fn settings<'a>(settings: impl IntoIterator<Item = &'a Setting>) -> Cell {
    let settings: Vec<_> = settings.into_iter().collect();
    if settings.is_empty() {
        return Cell::unavailable("nothing was requested and nothing is shown");
    }
    let values: Vec<_> =
        settings.iter().map(|setting| format!("{} {}", setting.name, arrow(setting))).collect();
    let sources: Vec<_> =
        settings.iter().map(|setting| format!("{} by {}", setting.name, setting.shown_by)).collect();
    Cell::value(values.join(", ")).with_note(format!("effective: {}", sources.join(", ")))
}

fn arrow(setting: &Setting) -> String {
    let effective = setting.effective.as_deref().unwrap_or("not shown");
    let differs = if setting.differs() { " (differs)" } else { "" };
    format!("{} → {effective}{differs}", requested(setting))
}

fn requested(setting: &Setting) -> &str {
    setting.requested.as_deref().unwrap_or("nothing")
}

/// Whether the selected rows fit the context, and by which limits.
pub(super) fn context_fit(manifest: &Manifest) -> Cell {
    let Some(check) = &manifest.context else {
        return Cell::unavailable("the selection was not checked against a context limit");
    };
    let budget = &check.budget;
    let limits = format!(
        "limit {} tokens, {} of them kept for the answer, {} a message and {} a conversation for the chat template",
        budget.limit,
        budget.reserved_output_tokens,
        budget.per_message_overhead,
        budget.per_conversation_overhead
    );
    let too_long: Vec<_> = check.too_long.iter().map(|row| row.id.as_str()).collect();
    let note = match too_long.as_slice() {
        [] => limits,
        ids => format!("{limits}{NEXT_PART}too long: {}", ids.join(", ")),
    };
    Cell::value(format!("{} of {} rows", check.fitting, check.fitting + too_long.len())).with_note(note)
}

/// The settings that every payload carried.
pub(super) fn generation_settings(correlation: &Correlation) -> Cell {
    let shown: Vec<_> = correlation.request_settings.iter().map(fields).collect();
    match shown.as_slice() {
        [] => Cell::unavailable("no payload was recorded"),
        [one] => Cell::value(one).with_note("the same in every request"),
        several => {
            Cell::value(several.join(NEXT_PART)).with_note(format!("{} kinds of request", several.len()))
        }
    }
}

/// Requests without a complete answer that were not cancelled.
pub(super) fn errors(totals: &Totals) -> Cell {
    let kinds: Vec<_> = totals.failures.iter().map(|(kind, count)| (kind.to_string(), *count)).collect();
    let mut parts: Vec<_> = kinds.iter().map(|(kind, count)| (kind.as_str(), *count)).collect();
    parts.extend([("empty answer", totals.empty), ("answer not recorded", totals.unrecorded)]);
    count(totals.failed + totals.empty + totals.unrecorded, &parts)
}

/// How many checks passed, with each check's claim and numbers.
pub(super) fn validation(validation: &Validation) -> Cell {
    let passed = validation.checks.iter().filter(|check| check.passed).count();
    let checks: Vec<_> = validation.checks.iter().map(check).collect();
    Cell::value(format!("{passed} of {} checks passed", validation.checks.len()))
        .with_note(checks.join(NEXT_PART))
}

fn check(check: &Check) -> String {
    let verdict = match (&check.reason, check.passed) {
        (_, true) => "passed".to_owned(),
        (Some(reason), false) => format!("did not pass ({reason})"),
        (None, false) => "did not pass".to_owned(),
    };
    let numbers = match fields(&check.detail) {
        numbers if numbers.is_empty() => String::new(),
        numbers => format!(" ({numbers})"),
    };
    format!("{} {verdict}: {}{numbers}", check.name, check.shows)
}

/// The fields of a JSON object in one line.
fn fields(value: &Value) -> String {
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match value {
        Value::Null => String::new(),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| format!("{name} {}", plain(value)));
            fields.collect::<Vec<_>>().join(", ")
        }
        other => plain(other),
    }
}

/// What the run did, by its counters, and why there is no acceptance if so.
pub(super) fn generation(mode: Mode, audit: &Audit, correlation: &Held<Correlation>) -> Cell {
    let engaged = audit.findings.iter().find(|finding| finding.what == Stage::Engaged);
    let Some(Finding { answer, shown_by, .. }) = engaged else {
        return Cell::unavailable("the audit does not say whether drafts were verified");
    };
    let (did, why) = match (mode, answer) {
        (Mode::Ordinary, Answer::No) => ("ordinary generation", "no draft was verified during the load"),
        (Mode::Ordinary, Answer::Yes) => {
            ("speculative execution", "planned as ordinary, and drafts were verified")
        }
        (Mode::Ordinary, Answer::Unavailable) => {
            ("ordinary generation, as planned", "nothing counts verified drafts either way")
        }
        (Mode::Speculative, Answer::Yes) => ("speculative execution", "drafts were verified during the load"),
        (Mode::Speculative, Answer::No | Answer::Unavailable) => {
            ("not shown", "planned as speculative, and nothing shows a verified draft")
        }
    };
    let acceptance = match correlation.as_ref().map(|correlation| correlation.acceptance.first()) {
        Ok(Err(cause)) => format!("{NEXT_PART}acceptance is unavailable: {cause}"),
        _ => String::new(),
    };
    Cell::value(did).with_note(format!("{why}: {shown_by}{acceptance}"))
}

/// One finding of the audit.
pub(super) fn finding(audit: &Audit, stage: Stage) -> Cell {
    match audit.findings.iter().find(|finding| finding.what == stage) {
        Some(finding) if finding.answer == Answer::Unavailable => Cell::unavailable(&finding.shown_by),
        Some(finding) => Cell::value(finding.answer.word()).with_note(&finding.shown_by),
        None => Cell::unavailable("the audit says nothing about it"),
    }
}

/// A list of the audit, or a word if it is empty.
pub(super) fn list(items: &[String], none: &str) -> Cell {
    match items {
        [] => Cell::value(none),
        items => Cell::value(items.join(NEXT_PART)),
    }
}

/// A pooled quantity of acceptance, or why there is none.
pub(super) fn acceptance(correlation: &Correlation, quantity: fn(&Quantities) -> &Measured<f64>) -> Cell {
    match correlation.acceptance.first() {
        Ok(quantities) => {
            let cell = measured(quantity(quantities), 3);
            if cell.value.is_some() { cell.with_note(provenance(quantities)) } else { cell }
        }
        Err(cause) => Cell::unavailable(cause.to_string()),
    }
}

/// Which source a quantity comes from, with the counts it was computed from.
fn provenance(quantities: &Quantities) -> String {
    let source = match quantities.provenance {
        Provenance::PerRequest => "by the engine's answers",
        Provenance::ServerCounters => "by the engine's counters before and after the load",
    };
    let number = |count: &Measured<u64>| count.value().map_or_else(|| "?".to_owned(), u64::to_string);
    format!(
        "{source}: {} accepted of {} draft tokens in {} verify steps of {} requests",
        number(&quantities.accepted_tokens),
        number(&quantities.draft_tokens),
        number(&quantities.verify_steps),
        quantities.requests
    )
}

fn measured(value: &Measured<f64>, digits: usize) -> Cell {
    match value {
        Measured::Value(value) => Cell::value(format!("{value:.digits$}")),
        Measured::Unavailable(reason) => Cell::unavailable(reason),
    }
}

/// Tokens per second over the measured window.
pub(super) fn throughput(correlation: &Correlation) -> Cell {
    let window = match &correlation.timings.window {
        Measured::Value(window) => window,
        Measured::Unavailable(reason) => return Cell::unavailable(reason),
    };
    let cell = measured(&window.output_tokens_per_second, 1);
    match window.output_tokens.value() {
        Some(tokens) if cell.value.is_some() => {
            cell.with_note(format!("{tokens} tokens in {:.1} s", window.seconds))
        }
        _ => cell,
    }
}

/// Why the machine was busy during a load.
pub(super) fn busy(load: &Load) -> &[String] {
    load.machine.as_ref().map(|machine| machine.busy.as_slice()).unwrap_or_default()
}

/// Whether the machine was quiet during a load.
pub(super) fn quiet(load: &Load) -> Cell {
    match (&load.machine, busy(load)) {
        (None, _) => Cell::unavailable("measured by a version that did not watch the machine"),
        (Some(machine), []) => match machine.during.others.reason() {
            None => Cell::value("quiet"),
            Some(reason) => Cell::unavailable(reason),
        },
        (Some(_), reasons) => Cell::value("busy").with_note(reasons.join(", ")),
    }
}

/// A time of the client.
pub(super) fn timing(record: &SubjectRecord, column: fn(&Columns) -> &Measured<Distribution>) -> Cell {
    of(&record.facts.correlation, |correlation| percentiles(column(&correlation.timings.total)))
}

/// A time of the engine, with its scope.
pub(super) fn engine_timing(
    record: &SubjectRecord,
    column: fn(&EngineColumns) -> &Measured<Distribution>,
) -> Cell {
    of(&record.facts.correlation, |correlation| match &correlation.timings.total.engine {
        Measured::Unavailable(reason) => Cell::unavailable(reason),
        Measured::Value(scopes) => match scopes.iter().find(|scope| column(scope).value().is_some()) {
            Some(scope) => {
                let cell = percentiles(column(scope));
                let samples = cell.note.clone().unwrap_or_default();
                cell.with_note(format!("{samples}, scope {}", scope.scope))
            }
            None => Cell::unavailable("not part of what the engine reports"),
        },
    })
}

fn percentiles(distribution: &Measured<Distribution>) -> Cell {
    match distribution {
        Measured::Unavailable(reason) => Cell::unavailable(reason),
        Measured::Value(d) => {
            Cell::value(format!("p50 {:.1}, p90 {:.1}, p95 {:.1}, p99 {:.1}", d.p50, d.p90, d.p95, d.p99))
                .with_note(format!("{} samples", d.count))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn setting_of(requested: Option<&str>, effective: Option<&str>) -> Setting {
        Setting::new("precision", requested.map(str::to_owned), effective.map(str::to_owned), "the header")
    }

    #[test]
    fn a_setting_shows_what_was_requested_beside_what_is_effective() {
        let cell = |requested, effective| setting(&[setting_of(requested, effective)], "precision");
        assert_eq!(
            cell(Some("Q4_1"), Some("Q4_1")),
            Cell::value("Q4_1 → Q4_1").with_note("effective by the header")
        );
        assert_eq!(cell(Some("Q4_1"), Some("Q8_0")).value.unwrap(), "Q4_1 → Q8_0 (differs)");
        assert_eq!(cell(None, Some("Q8_0")).value.unwrap(), "nothing → Q8_0");
        assert_eq!(cell(Some("Q4_1"), None), Cell::unavailable("requested Q4_1; the header shows nothing"));
        assert_eq!(setting(&[], "precision"), Cell::unavailable("nothing shows it"));
    }

    #[test]
    fn settings_are_named_one_by_one_with_what_shows_each() {
        let cell = settings(&[setting_of(Some("Q4_1"), Some("Q4_1")), setting_of(Some("8"), None)]);
        assert_eq!(cell.value.unwrap(), "precision Q4_1 → Q4_1, precision 8 → not shown");
        assert_eq!(cell.note.unwrap(), "effective: precision by the header, precision by the header");
    }

    #[test]
    fn a_check_is_told_with_its_numbers_or_its_reason() {
        let checked = |passed, reason: Option<&str>, detail| Check {
            name: "repeat".to_owned(),
            shows: "answers repeat".to_owned(),
            command: vec![],
            passed,
            detail,
            reason: reason.map(str::to_owned),
        };
        assert_eq!(
            check(&checked(true, None, json!({"prompts": 4, "share": 1.0, "by": "text"}))),
            "repeat passed: answers repeat (prompts 4, share 1.0, by text)"
        );
        assert_eq!(
            check(&checked(false, Some("2 differ"), Value::Null)),
            "repeat did not pass (2 differ): answers repeat"
        );
    }

    #[test]
    fn a_load_was_measured_on_a_quiet_machine_or_a_busy_one_or_nobody_knows() {
        let load = |machine: &Value| -> Load {
            serde_json::from_value(json!({
                "schema_version": 1, "aiperf_version": "0", "client": "0".repeat(64), "command": [],
                "dataset": "spec_bench", "selection_digest": "0".repeat(64), "planned_requests": 1,
                "settings": [], "exit_code": 0, "bundle": "0".repeat(64), "model_before": "0".repeat(64),
                "model_after": "0".repeat(64), "load_average_before": 0.0, "load_average_after": 0.0,
                "started_at": "", "took_ms": 1, "machine": machine
            }))
            .unwrap()
        };
        let machine = |others: Value, busy: &[&str]| {
            let none = json!({"unavailable": "none"});
            let moment = json!({
                "load_average": none, "cpu_pressure": none, "memory_pressure": none, "cpu_mhz": none, "gpu": none
            });
            let during = json!({
                "seconds": 2.0, "others": others, "own": none, "steal": none, "load_average": none,
                "cpu_pressure": none, "memory_pressure": none, "throttled": none, "cpu_mhz": none,
                "gpu_utilisation": none, "gpu_clock_mhz": none, "gpu_others": none
            });
            json!({
                "limits": {"others_below": 0.1, "steal_below": 0.05},
                "before": moment, "during": during, "after": moment, "busy": busy
            })
        };
        let seen = json!({"value": {"min": 0.0, "mean": 0.0, "max": 0.0, "samples": 1}});
        let short = json!({"unavailable": "too short to tell"});
        assert_eq!(quiet(&load(&machine(seen.clone(), &[]))), Cell::value("quiet"));
        let both = quiet(&load(&machine(seen, &["others used 34 % of the CPU", "b"])));
        assert_eq!(both, Cell::value("busy").with_note("others used 34 % of the CPU, b"));
        assert_eq!(quiet(&load(&machine(short, &[]))), Cell::unavailable("too short to tell"));
        let before = "measured by a version that did not watch the machine";
        assert_eq!(quiet(&load(&Value::Null)), Cell::unavailable(before));
    }

    fn audit_with(answer: Answer) -> Audit {
        let what = Stage::Engaged;
        serde_json::from_value(json!({
            "schema_version": 1, "bundle": "0".repeat(64), "engine": "e", "engine_could": [],
            "findings": [{"what": what, "answer": answer, "shown_by": "the counter"}],
            "forced_acceptance": []
        }))
        .unwrap()
    }

    #[test]
    fn a_run_is_called_by_what_its_counters_show() {
        let did = |mode, answer| {
            let cell = generation(mode, &audit_with(answer), &Err("not joined".to_owned()));
            assert!(cell.note.unwrap().ends_with(": the counter"));
            cell.value.unwrap()
        };
        assert_eq!(did(Mode::Ordinary, Answer::No), "ordinary generation");
        assert_eq!(did(Mode::Ordinary, Answer::Yes), "speculative execution");
        assert_eq!(did(Mode::Ordinary, Answer::Unavailable), "ordinary generation, as planned");
        assert_eq!(did(Mode::Speculative, Answer::Yes), "speculative execution");
        assert_eq!(did(Mode::Speculative, Answer::No), "not shown");
        assert_eq!(did(Mode::Speculative, Answer::Unavailable), "not shown");
    }

    #[test]
    fn a_count_names_its_parts_only_where_there_are_any() {
        assert_eq!(count(0, &[("HTTP 429", 0)]), Cell::value("0"));
        assert_eq!(count(3, &[("HTTP 429", 2), ("empty", 0), ("cut", 1)]).note.unwrap(), "HTTP 429 2, cut 1");
    }
}
