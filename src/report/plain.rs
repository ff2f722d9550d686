//! One line an event, for pipes and CI logs; nothing moves, nothing is coloured.

use std::collections::HashMap;
use std::io::Write;
use std::time::{Duration, Instant};

use super::text::{Paint, printable};
use super::{Reporter, line};
use crate::event::{Event, Outcome};

/// Writes events as plain lines.
#[derive(Debug)]
pub struct Plain<W> {
    writer: W,
    /// Lines of nodes that were reused, which come in thousands, until the
    /// next line of another kind.
    held: String,
    pace: Duration,
    told: HashMap<String, Told>,
    ended: Vec<(String, Outcome)>,
}

/// What was last shown of a node's progress.
#[derive(Debug)]
struct Told {
    at: Instant,
    doing: String,
}

impl<W: Write> Plain<W> {
    /// Writes to `writer`; what a node is doing is shown at most once per `pace`.
    pub fn new(writer: W, pace: Duration) -> Self {
        Self { writer, held: String::new(), pace, told: HashMap::new(), ended: Vec::new() }
    }

    fn progressed(&mut self, node: &str, doing: &str) {
        let now = Instant::now();
        let is_news = self
            .told
            .get(node)
            .is_none_or(|told| told.doing != doing && now.duration_since(told.at) >= self.pace);
        if is_news {
            self.told.insert(node.to_owned(), Told { at: now, doing: doing.to_owned() });
            self.tagged("doing", &format!("{}: {}", printable(node), printable(doing)));
        }
    }

    fn ended(&mut self, exit_code: u8, took: Duration, reports: &[String]) {
        for report in reports {
            self.tagged("report", report);
        }
        let outcomes: Vec<Outcome> = self.ended.iter().map(|(_, outcome)| *outcome).collect();
        self.write(&line::ended(Paint::when(false), exit_code, took, &outcomes));
    }

    fn tagged(&mut self, word: &str, rest: &str) {
        self.write(&[line::tagged(word, rest)]);
    }

    fn write(&mut self, lines: &[String]) {
        self.hold(lines);
        let text = std::mem::take(&mut self.held);
        // A closed pipe must not stop the run, so errors end here.
        let _ = self.writer.write_all(text.as_bytes()).and_then(|()| self.writer.flush());
    }

    fn hold(&mut self, lines: &[String]) {
        for line in lines {
            self.held.push_str(line);
            self.held.push('\n');
        }
    }
}

impl<W: Write> Reporter for Plain<W> {
    fn report(&mut self, event: &Event) {
        match event {
            Event::Waiting { holder } => self.tagged("waiting", &format!("for {}", printable(holder))),
            Event::Recovered { run, processes, unfinished } => {
                self.write(&[line::recovered(run, *processes, unfinished)]);
            }
            Event::Stopping => self.write(&[line::stopping()]),
            Event::RunStarted { run, plan, nodes } => {
                self.tagged("run", &format!("{run} of plan {}, {nodes} nodes", printable(plan)));
            }
            Event::NodeStarted { node, kind } => {
                self.tagged("started", &format!("{} ({kind})", printable(node)));
            }
            Event::NodeProgress { node, doing } => self.progressed(node, doing),
            Event::NodeFinished { node, outcome, reason, took, log_tail } => {
                self.told.remove(node);
                self.ended.push((node.clone(), *outcome));
                let paint = Paint::when(false);
                let lines =
                    line::finished(paint, node, *outcome, reason.as_deref(), *took, log_tail.as_deref());
                match outcome {
                    Outcome::Reused => self.hold(&lines),
                    _ => self.write(&lines),
                }
            }
            Event::NodeRetried { node, reason, took, log_tail } => {
                self.told.remove(node);
                self.write(&line::retried(Paint::when(false), node, reason, *took, log_tail.as_deref()));
            }
            Event::NodeReopened { node, reason } => {
                self.ended.retain(|(ended, _)| ended != node);
                self.write(&[line::reopened(node, reason)]);
            }
            Event::StatusChanged { subject, from, to, reason } => {
                self.write(&[line::moved(subject, from.as_deref(), to, reason)]);
            }
            Event::FellShort { subject, status, missing } => {
                self.write(&[line::fell_short(subject, status, missing)]);
            }
            Event::RunFinished { exit_code, took, reports } => self.ended(*exit_code, *took, reports),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{a_failing_run, a_healing_run};
    use super::*;

    fn shown(events: &[Event], pace: Duration) -> String {
        let mut written = Vec::new();
        let mut plain = Plain::new(&mut written, pace);
        for event in events {
            plain.report(event);
        }
        String::from_utf8(written).unwrap()
    }

    #[test]
    fn a_log_has_one_line_an_event_and_the_reason_of_a_failure() {
        insta::assert_snapshot!(shown(&a_failing_run(), Duration::ZERO), @"
        run         r7 of plan stage-f, 6 nodes
        reused      client 3ms
        reused      corpus 2ms
        started     model (fetch)
        doing       model: 12 of 98 MB
        doing       model: 98 of 98 MB
        succeeded   model 4.2s
        started     load[target=llama-cpp] (aiperf)
        failed      load[target=llama-cpp] 3m04s: the server ended with signal 9
                    see its log below
                    │ srv slot 0 busy
                    │ Killed
        blocked     matrix: load[target=llama-cpp] failed
        not-run     serve[target=trtmc]: no GPU on this machine
        status      llama-cpp: planned → family-validated (its own checks passed on this bundle)
        report      runs/r7/coverage.html
        nodes       1 succeeded, 2 reused, 1 failed, 1 blocked, 1 not-run
        run         exit 1 (a node failed or a gate did not hold) in 3m12s
        ");
    }

    #[test]
    fn an_attempt_that_failed_is_told_and_each_node_is_counted_once() {
        insta::assert_snapshot!(shown(&a_healing_run(), Duration::ZERO), @"
        reused      corpus 2ms
        reused      model 3ms
        started     bundle (build_bundle)
        retried     bundle 40ms: the model is damaged; model is made again; then bundle is tried again
        again       model: its output file was damaged in the store
        started     model (fetch)
        succeeded   model 900ms: made again
        started     bundle (build_bundle)
        succeeded   bundle 50ms
        nodes       2 succeeded, 1 reused
        run         exit 0 (done) in 1.0s
        ");
    }

    #[test]
    fn progress_does_not_flood_a_log() {
        let progress = |doing: &str| Event::NodeProgress { node: "load".into(), doing: doing.into() };
        let events: Vec<_> = (0..1000).map(|n| progress(&format!("{n} of 1000"))).collect();
        assert_eq!(shown(&events, Duration::from_secs(3600)), "doing       load: 0 of 1000\n");
    }

    #[test]
    fn a_closed_pipe_is_no_reason_to_panic() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                Err(std::io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let mut plain = Plain::new(Closed, Duration::ZERO);
        for event in &a_failing_run() {
            plain.report(event);
        }
    }
}
