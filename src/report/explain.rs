//! One node, and everything that decides whether it runs, on one screen.

use std::fmt::Write;
use std::time::Duration;

use super::change::{change_text, lines, short};
use super::plan::word;
use super::text::{Paint, clipped, elapsed, printable, wrapped};
use crate::run::{Action, ExplainedInput, Explanation, ForecastNode, Measured};

/// Lines of a document that are shown at most.
const DOCUMENT_LINES: usize = 40;
/// Measurements that are shown at most.
const SHOWN: usize = 8;
/// Width of the names at the left.
const NAME: usize = 9;

/// The explanation in at most `width` columns.
#[must_use]
pub fn text(explained: &Explanation, width: usize, paint: Paint) -> String {
    let forecast = &explained.forecast;
    let columns = width.saturating_sub(NAME + 3).max(40);
    let mut text = format!("{}\n", paint.bold(&printable(&forecast.node)));
    let mut entry = |name: &str, lines: Vec<String>| {
        for (at, line) in lines.iter().enumerate() {
            let name = if at == 0 { name } else { "" };
            // Writing into a string does not fail.
            let _ = writeln!(text, "  {name:<NAME$} {line}");
        }
    };
    entry("kind", vec![kind(forecast)]);
    entry("target", forecast.target.iter().map(|target| target_text(target, forecast)).collect());
    entry("written", vec![format!("{}:{}", explained.file, explained.line)]);
    entry("would", wrapped(&would(forecast), columns));
    entry("damaged", explained.damaged.iter().map(|what| damaged(what)).collect());
    entry("last", wrapped(&last(explained), columns));
    entry("ended", said_of_service(explained).iter().flat_map(|said| wrapped(said, columns)).collect());
    let retried = explained.last.iter().filter_map(|last| last.retried.as_deref());
    entry("retried", retried.flat_map(|reason| wrapped(&printable(reason), columns)).collect());
    entry("measured", measured(&explained.measurements));
    entry(
        "changed",
        forecast.changes.iter().flat_map(|change| wrapped(&change_text(change), columns)).collect(),
    );
    entry("inputs", inputs(&explained.inputs));
    entry("settings", cut(&lines(&explained.settings), columns));
    let key = forecast.key.map_or_else(|| "not known yet".to_owned(), |key| key.to_string());
    entry("key", vec![if forecast.action == Action::NotRun { "none".to_owned() } else { key }]);
    entry(
        "digest of",
        explained.key_document.iter().flat_map(|document| cut(&lines(document), columns)).collect(),
    );
    text
}

fn kind(forecast: &ForecastNode) -> String {
    let alone = forecast.quiet.then(|| "a measurement that runs alone".to_owned());
    let timeout = forecast.timeout_s.and_then(|limit| Duration::try_from_secs_f64(limit).ok());
    let timeout = timeout.map(|limit| format!("timeout {}", elapsed(limit)));
    let took =
        forecast.last_took_ms.map(|took| format!("took {} last", elapsed(Duration::from_millis(took))));
    let facts = std::iter::once(forecast.kind.clone()).chain(alone).chain(timeout).chain(took);
    facts.collect::<Vec<_>>().join(", ")
}

fn target_text(target: &str, forecast: &ForecastNode) -> String {
    match forecast.requires.as_slice() {
        [] => printable(target),
        requires => format!("{}, which needs {}", printable(target), printable(&requires.join(" and "))),
    }
}

fn would(forecast: &ForecastNode) -> String {
    let reason = printable(forecast.reason.as_deref().unwrap_or_default());
    match forecast.action {
        Action::Reuse => match &forecast.made_at {
            Some(at) => format!("be reused, as made {at}"),
            None => "be reused".to_owned(),
        },
        Action::NotNeeded => format!("not start: {reason}"),
        Action::Start => format!("start {reason}"),
        Action::NotRun => format!("not run: {reason}"),
        Action::Blocked => format!("be blocked: {reason}"),
        Action::Run | Action::Fail => format!("{}: {reason}", word(forecast.action)),
    }
}

fn measured(measurements: &[Measured]) -> Vec<String> {
    let skipped = measurements.len().saturating_sub(SHOWN);
    let earlier = (skipped > 0).then(|| format!("{skipped} earlier ones, which --json shows"));
    let row = |measured: &Measured| {
        let Measured { attempt, made_at, took_ms, evidence } = measured;
        let took = elapsed(Duration::from_millis(*took_ms));
        format!("{attempt}  {made_at}  took {took}  evidence {}", evidence.short())
    };
    earlier.into_iter().chain(measurements.iter().skip(skipped).map(row)).collect()
}

fn damaged(what: &str) -> String {
    format!(
        "{} does not match its digest; a node that reads it has it made again and is tried again after that",
        printable(what)
    )
}

fn last(explained: &Explanation) -> String {
    let Some(last) = &explained.last else { return "the state knows no earlier result of it".to_owned() };
    let key = short(&last.key);
    if last.same {
        return format!("{} under the same key", last.at);
    }
    let service = matches!(explained.forecast.action, Action::Start | Action::NotNeeded);
    let compared = match (last.document_in_store, explained.forecast.key) {
        (false, _) if service => "; a service is not stored, so the two cannot be compared",
        (false, _) => "; it is no longer in the store, so the two cannot be compared",
        (true, None) => "; compared as far as the key is known",
        (true, Some(_)) => "",
    };
    format!("{} under the key {key}…{compared}", last.at)
}

/// How a server was stopped; of other nodes their results tell.
fn said_of_service(explained: &Explanation) -> Option<String> {
    let is_service = matches!(explained.forecast.action, Action::Start | Action::NotNeeded);
    let last = explained.last.as_ref().filter(|_| is_service)?;
    last.said.as_deref().map(printable)
}

fn inputs(inputs: &[ExplainedInput]) -> Vec<String> {
    let longest = |text: fn(&ExplainedInput) -> &str| {
        inputs.iter().map(|input| text(input).chars().count()).max().unwrap_or_default()
    };
    let (why, name) = (longest(|input| &input.why), longest(|input| &input.node));
    let row = |input: &ExplainedInput| {
        let left = input.digest.map_or_else(|| absent(input).to_owned(), |digest| digest.short());
        let node = printable(&input.node);
        format!("{:<why$}  {node:<name$}  {:<10}  {left}", input.why, word(input.action))
    };
    if inputs.is_empty() { vec!["none".to_owned()] } else { inputs.iter().map(row).collect() }
}

/// Why there is no digest of an input.
fn absent(input: &ExplainedInput) -> &'static str {
    match (input.why.as_str(), input.action) {
        ("order", _) => "not in the key",
        (_, Action::Run) => "would run first",
        ("data", Action::Reuse | Action::Start | Action::NotNeeded) => "not known yet",
        _ => "left nothing",
    }
}

/// The beginning of a document.
fn cut(lines: &[String], columns: usize) -> Vec<String> {
    let shown = lines.iter().take(DOCUMENT_LINES).map(|line| clipped(line, columns).into_owned());
    let more = lines.len().saturating_sub(DOCUMENT_LINES);
    let rest = (more > 0).then(|| format!("… {more} more lines; --json shows all"));
    shown.chain(rest).collect()
}
