//! A forecast as a person reads it: a line a node, what would run with its
//! reason, what this machine cannot run gathered at the end.

use std::collections::BTreeMap;
use std::time::Duration;

use super::change::change_text;
use super::text::{Paint, elapsed, printable, wrapped};
use crate::run::{Action, Forecast, ForecastNode, Totals};

/// Width of the first word of a line.
const WORD: usize = 11;
/// The narrowest text that details are wrapped to, in characters.
const NARROW: usize = 40;
/// Changes that are shown of a node; `explain` shows all.
const CHANGES: usize = 4;

/// The forecast in at most `width` columns.
#[must_use]
pub fn text(forecast: &Forecast, width: usize, paint: Paint) -> String {
    let (left_out, shown): (Vec<_>, Vec<_>) =
        forecast.nodes.iter().partition(|node| node.action == Action::NotRun);
    let longest = |text: fn(&ForecastNode) -> &str| {
        shown.iter().map(|node| printable(text(node)).chars().count()).max().unwrap_or_default()
    };
    let columns = Columns { width, name: longest(|node| &node.node), kind: longest(|node| &node.kind) };
    let mut lines: Vec<String> = shown.iter().flat_map(|node| columns.node(node, paint)).collect();
    lines.extend(columns.left_out(&left_out, paint));
    lines.push(total(&forecast.totals));
    lines.join("\n") + "\n"
}

struct Columns {
    width: usize,
    name: usize,
    kind: usize,
}

impl Columns {
    fn node(&self, node: &ForecastNode, paint: Paint) -> Vec<String> {
        let word = painted(paint, node.action);
        let name = printable(&node.node);
        let head = format!("{word} {name:<0$}  {kind:<1$}", self.name, self.kind, kind = node.kind);
        let width = WORD + 1 + self.name + 2 + self.kind;
        let mut details = details(node);
        let fits = |details: &[String]| width + 2 + details.join(", ").chars().count() <= self.width;
        if node.action == Action::Reuse && !fits(&details) {
            details.truncate(1);
        }
        let mut lines = Vec::new();
        if fits(&details) {
            lines.push(format!("{head}  {}", details.join(", ")).trim_end().to_owned());
        } else {
            lines.push(head.trim_end().to_owned());
            lines.extend(self.indented(&details.join(", ")));
        }
        let reason = node.reason.iter().filter(|_| !matches!(node.action, Action::Start | Action::NotNeeded));
        lines.extend(reason.flat_map(|reason| self.indented(&printable(reason))));
        let changes = node.changes.iter().take(CHANGES);
        lines.extend(changes.flat_map(|change| self.indented(&change_text(change))));
        if let Some(more) = node.changes.len().checked_sub(CHANGES).filter(|more| *more > 0) {
            lines.extend(self.indented(&format!("and {more} more; `orchestrate explain` shows them")));
        }
        lines
    }

    /// What this machine cannot run, by reason.
    fn left_out(&self, nodes: &[&ForecastNode], paint: Paint) -> Vec<String> {
        let mut by_reason: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for node in nodes {
            let reason = node.reason.as_deref().unwrap_or_default();
            by_reason.entry(reason).or_default().push(printable(&node.node));
        }
        let mut lines = Vec::new();
        for (reason, names) in by_reason {
            let [first, rest @ ..] = &self.indented(&printable(reason))[..] else { continue };
            lines.push(format!("{} {}", painted(paint, Action::NotRun), first.trim_start()));
            lines.extend_from_slice(rest);
            lines.extend(self.indented(&names.join(", ")));
        }
        lines
    }

    fn indented(&self, text: &str) -> Vec<String> {
        let columns = self.width.saturating_sub(WORD + 1).max(NARROW);
        wrapped(text, columns).into_iter().map(|line| format!("{:WORD$} {line}", "")).collect()
    }
}

/// What is said beside a node.
fn details(node: &ForecastNode) -> Vec<String> {
    let took = node.last_took_ms.map(|took| elapsed(Duration::from_millis(took)));
    match node.action {
        Action::Reuse => {
            // The day is enough here; `explain` shows the time.
            let day = node.made_at.iter().filter_map(|at| at.split('T').next());
            let made = day.map(|day| format!("made {day}"));
            took.map(|took| format!("took {took}")).into_iter().chain(made).collect()
        }
        Action::Run => {
            let took = took.map_or_else(|| "no known duration".to_owned(), |took| format!("about {took}"));
            let alone = node.quiet.then(|| "runs alone".to_owned());
            let timeout = node.timeout_s.map(|limit| {
                format!("timeout {}", elapsed(Duration::try_from_secs_f64(limit).unwrap_or(Duration::MAX)))
            });
            let services = node.services.iter().map(|service| format!("uses {}", printable(service)));
            std::iter::once(took).chain(alone).chain(timeout).chain(services).chain(requires(node)).collect()
        }
        Action::Start => node.reason.iter().map(|reason| printable(reason)).chain(requires(node)).collect(),
        Action::NotNeeded => node.reason.iter().map(|reason| printable(reason)).collect(),
        Action::NotRun | Action::Blocked | Action::Fail => Vec::new(),
    }
}

fn requires(node: &ForecastNode) -> Option<String> {
    (!node.requires.is_empty()).then(|| format!("needs {}", printable(&node.requires.join(" and "))))
}

/// The word of an action.
pub(super) fn word(action: Action) -> &'static str {
    match action {
        Action::Reuse => "reuse",
        Action::Run => "run",
        Action::Start => "start",
        Action::NotNeeded => "not needed",
        Action::NotRun => "not run",
        Action::Blocked => "blocked",
        Action::Fail => "fail",
    }
}

/// The word of an action in its column and its colour.
fn painted(paint: Paint, action: Action) -> String {
    let word = format!("{:<WORD$}", word(action));
    match action {
        Action::Reuse | Action::NotNeeded => paint.dim(&word),
        Action::Run | Action::Start => paint.bold(&word),
        Action::NotRun | Action::Blocked => paint.yellow(&word),
        Action::Fail => paint.red(&word),
    }
}

fn total(totals: &Totals) -> String {
    let services = if totals.start == 1 { "service started" } else { "services started" };
    let always = [(totals.run, "would run"), (totals.reuse, "reused"), (totals.not_run, "not run")];
    let sometimes = [(totals.start, services), (totals.blocked, "blocked"), (totals.fail, "failed at once")];
    let counts = always.into_iter().chain(sometimes.into_iter().filter(|(count, _)| *count > 0));
    let counts: Vec<String> = counts.map(|(count, word)| format!("{count} {word}")).collect();
    let counts = counts.join(", ");
    let known = elapsed(Duration::from_millis(totals.known_ms));
    match (totals.run, totals.without_duration) {
        (0, _) => counts,
        (run, unknown) if run == unknown => format!("{counts}; no last duration is known"),
        (_, 0) => format!("{counts}; about {known} by last known durations"),
        (_, 1) => format!("{counts}; about {known} by last known durations, 1 node has none"),
        (_, more) => format!("{counts}; about {known} by last known durations, {more} nodes have none"),
    }
}
