//! The lines that the plain and the terminal reporter have in common.

use std::time::Duration;

use super::text::{Paint, clipped, elapsed, printable};
use crate::event::Outcome;

/// Width of the first word of a line.
const WORD: usize = 11;
/// Lines of a log that are shown at most, the newest.
const TAIL_LINES: usize = 40;
/// Characters of a log line that are shown at most.
const TAIL_COLUMNS: usize = 400;

/// A line that begins with a word in a column of its own.
pub(super) fn tagged(word: &str, rest: &str) -> String {
    format!("{word:<WORD$} {rest}")
}

/// How a node ended: outcome, name, duration, reason, and the end of its log.
pub(super) fn finished(
    paint: Paint,
    node: &str,
    outcome: Outcome,
    reason: Option<&str>,
    took: Duration,
    log_tail: Option<&str>,
) -> Vec<String> {
    let word = painted(paint, outcome);
    let name = match spent(outcome, took) {
        Some(took) => format!("{} {}", printable(node), paint.dim(&took)),
        None => printable(node),
    };
    with_reason(paint, &format!("{word} {name}"), reason, log_tail)
}

/// A line that goes on with a reason, and the end of a log.
fn with_reason(paint: Paint, line: &str, reason: Option<&str>, log_tail: Option<&str>) -> Vec<String> {
    let mut reason = reason.into_iter().flat_map(str::lines).map(printable).filter(|line| !line.is_empty());
    let mut lines = vec![match reason.next() {
        Some(reason) => format!("{line}: {reason}"),
        None => line.to_owned(),
    }];
    lines.extend(reason.map(|line| format!("{:WORD$} {line}", "")));
    lines.extend(log_tail.map(|tail| indented_tail(paint, tail)).unwrap_or_default());
    lines
}

/// An attempt that failed, why, and the end of its log.
pub(super) fn retried(
    paint: Paint,
    node: &str,
    reason: &str,
    took: Duration,
    log_tail: Option<&str>,
) -> Vec<String> {
    let name = format!("{} {}", printable(node), paint.dim(&elapsed(took)));
    with_reason(paint, &tagged("retried", &name), Some(reason), log_tail)
}

/// A node that is looked at again after it had ended.
pub(super) fn reopened(node: &str, reason: &str) -> String {
    tagged("again", &format!("{}: {}", printable(node), printable(reason)))
}

/// How long a node took; nothing for one that never began.
pub(super) fn spent(outcome: Outcome, took: Duration) -> Option<String> {
    let never_began = matches!(outcome, Outcome::Blocked | Outcome::Skipped | Outcome::NotRun);
    (!(never_began && took.is_zero())).then(|| elapsed(took))
}

/// A subject that moved on the ladder.
pub(super) fn moved(subject: &str, from: Option<&str>, to: &str, reason: &str) -> String {
    let from = from.unwrap_or("new");
    tagged("status", &format!("{}: {from} → {to} ({})", printable(subject), printable(reason)))
}

/// A subject whose nodes all passed and that is not qualified by them.
pub(super) fn fell_short(subject: &str, status: &str, missing: &[String]) -> String {
    let missing = printable(&missing.join("; "));
    tagged(
        "not held",
        &format!("{} stands at {status}: {missing}; --remeasure measures again", printable(subject)),
    )
}

/// What a killed run left, and that it is cleared.
pub(super) fn recovered(run: &str, processes: usize, unfinished: &[String]) -> String {
    let mut left = Vec::new();
    match processes {
        0 => {}
        1 => left.push("1 process".to_owned()),
        many => left.push(format!("{many} processes")),
    }
    if !unfinished.is_empty() {
        left.push(format!("half-done work of {}", printable(&unfinished.join(", "))));
    }
    let left = if left.is_empty() { "nothing".to_owned() } else { left.join(" and ") };
    tagged("cleared", &format!("{left} that the killed run {run} left"))
}

/// The user has asked for the end while something runs.
pub(super) fn stopping() -> String {
    tagged("stopping", "what runs may end in order; the same signal again kills it")
}

/// What an exit code says (design, section 10).
fn exit(code: u8) -> &'static str {
    match code {
        0 => "done",
        1 => "a node failed or a gate did not hold",
        2 => "the plan or the arguments are wrong",
        3 => "this environment cannot run it",
        130 => "interrupted",
        _ => "unknown",
    }
}

/// How the run ended, and how many nodes ended in which way.
pub(super) fn ended(paint: Paint, exit_code: u8, took: Duration, outcomes: &[Outcome]) -> [String; 2] {
    let exit = format!("exit {exit_code} ({})", exit(exit_code));
    let exit = if exit_code == 0 { paint.green(&exit) } else { paint.red(&exit) };
    [tagged("nodes", &counted(outcomes)), tagged("run", &format!("{exit} in {}", elapsed(took)))]
}

fn counted(outcomes: &[Outcome]) -> String {
    use Outcome::{Blocked, Cancelled, Failed, Invalid, NotRun, Reused, Skipped, Succeeded, Unsupported};
    let all = [Succeeded, Reused, Failed, Invalid, Unsupported, Blocked, Skipped, Cancelled, NotRun];
    let counts: Vec<_> = all
        .into_iter()
        .map(|outcome| (outcomes.iter().filter(|o| **o == outcome).count(), outcome.word()))
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    if counts.is_empty() { "none".to_owned() } else { counts.join(", ") }
}

fn painted(paint: Paint, outcome: Outcome) -> String {
    let word = format!("{:<WORD$}", outcome.word());
    match outcome {
        Outcome::Succeeded => paint.green(&word),
        Outcome::Reused => paint.dim(&word),
        Outcome::Failed | Outcome::Invalid => paint.red(&word),
        Outcome::Unsupported | Outcome::Blocked | Outcome::Skipped | Outcome::Cancelled | Outcome::NotRun => {
            paint.yellow(&word)
        }
    }
}

fn indented_tail(paint: Paint, tail: &str) -> Vec<String> {
    let lines: Vec<_> = tail.lines().collect();
    let shown = &lines[lines.len().saturating_sub(TAIL_LINES)..];
    shown
        .iter()
        .map(|line| {
            let line = printable(line);
            format!("{:WORD$} {} {}", "", paint.dim("│"), clipped(&line, TAIL_COLUMNS))
        })
        .collect()
}
