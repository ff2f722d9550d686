//! What a person or a pipeline sees before, while and after it runs: forecasts,
//! reporters of events, the status.
//!
//! Everything here turns what it is given into text. It starts nothing, decides
//! nothing, and must not know of processes or the store.

mod change;
pub mod explain;
pub mod graph;
mod line;
pub mod log;
mod plain;
pub mod plan;
pub mod status;
mod terminal;
mod text;

use std::io;
use std::time::Duration;

use indicatif::ProgressDrawTarget;

use crate::event::Event;

pub use plain::Plain;
pub use terminal::Terminal;
pub use text::{Paint, elapsed, printable};

/// A plain log shows what a node is doing at most this often.
const PLAIN_PACE: Duration = Duration::from_secs(10);

/// A consumer of events.
pub trait Reporter {
    /// Shows one event. A reporter that cannot write goes on in silence: the
    /// run matters more than its narration.
    fn report(&mut self, event: &Event);
}

/// The reporter that fits standard error.
///
/// A terminal gets live lines, anything else (a pipe, a CI log, `TERM=dumb` as
/// judged by the caller) one line an event. `no_color` holds for both; `width`
/// is in columns and bounds the live lines and the final table.
#[must_use]
pub fn reporter(stderr_is_terminal: bool, no_color: bool, width: u16) -> Box<dyn Reporter + Send> {
    let target = ProgressDrawTarget::stderr();
    if stderr_is_terminal && !target.is_hidden() {
        Box::new(Terminal::new(target, Paint::when(!no_color), width))
    } else {
        Box::new(Plain::new(io::stderr(), PLAIN_PACE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Outcome;

    fn ended(node: &str, outcome: Outcome, reason: Option<&str>, millis: u64) -> Event {
        Event::NodeFinished {
            node: node.into(),
            outcome,
            reason: reason.map(str::to_owned),
            took: Duration::from_millis(millis),
            log_tail: None,
        }
    }

    /// A run that makes again what a node finds damaged.
    pub(super) fn a_healing_run() -> Vec<Event> {
        vec![
            ended("corpus", Outcome::Reused, None, 2),
            ended("model", Outcome::Reused, None, 3),
            Event::NodeStarted { node: "bundle".into(), kind: "build_bundle" },
            Event::NodeRetried {
                node: "bundle".into(),
                reason: "the model is damaged; model is made again; then bundle is tried again".into(),
                took: Duration::from_millis(40),
                log_tail: None,
            },
            Event::NodeReopened {
                node: "model".into(),
                reason: "its output file was damaged in the store".into(),
            },
            Event::NodeStarted { node: "model".into(), kind: "fetch" },
            ended("model", Outcome::Succeeded, Some("made again"), 900),
            Event::NodeStarted { node: "bundle".into(), kind: "build_bundle" },
            ended("bundle", Outcome::Succeeded, None, 50),
            Event::RunFinished { exit_code: 0, took: Duration::from_secs(1), reports: vec![] },
        ]
    }

    /// A run in which the server dies under load.
    pub(super) fn a_failing_run() -> Vec<Event> {
        vec![
            Event::RunStarted { run: "r7".into(), plan: "stage-f".into(), nodes: 6 },
            ended("client", Outcome::Reused, None, 3),
            ended("corpus", Outcome::Reused, None, 2),
            Event::NodeStarted { node: "model".into(), kind: "fetch" },
            Event::NodeProgress { node: "model".into(), doing: "12 of 98 MB".into() },
            Event::NodeProgress { node: "model".into(), doing: "98 of 98 MB".into() },
            ended("model", Outcome::Succeeded, None, 4210),
            Event::NodeStarted { node: "load[target=llama-cpp]".into(), kind: "aiperf" },
            Event::NodeFinished {
                node: "load[target=llama-cpp]".into(),
                outcome: Outcome::Failed,
                reason: Some("the server ended with signal 9\nsee its log below".into()),
                took: Duration::from_secs(184),
                log_tail: Some("srv \u{1b}[31mslot\u{1b}[0m 0 busy\nKilled".into()),
            },
            ended("matrix", Outcome::Blocked, Some("load[target=llama-cpp] failed"), 0),
            ended("serve[target=trtmc]", Outcome::NotRun, Some("no GPU on this machine"), 0),
            Event::StatusChanged {
                subject: "llama-cpp".into(),
                from: Some("planned".into()),
                to: "family-validated".into(),
                reason: "its own checks passed on this bundle".into(),
            },
            Event::RunFinished {
                exit_code: 1,
                took: Duration::from_millis(191_500),
                reports: vec!["runs/r7/coverage.html".into()],
            },
        ]
    }
}
