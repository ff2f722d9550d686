//! The records of a run on their way into the state.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use crate::state::{NodeRow, State, StateError};

/// Records that are handed to the writer at a time.
const BATCH: usize = 1024;

/// Collects the records of a run. Many of them, as of nodes that are reused by
/// the thousand, are written on a thread of their own while the run goes on;
/// all are in the state before anything starts or is waited for.
pub(super) struct Journal<'a> {
    state: &'a State,
    state_dir: PathBuf,
    run: String,
    pending: Vec<NodeRow>,
    writer: Option<Writer>,
}

/// A thread that writes batches in order over a connection of its own.
struct Writer {
    batches: Sender<Vec<NodeRow>>,
    answers: Receiver<Result<(), StateError>>,
    /// Batches that are not answered yet.
    open: usize,
    thread: JoinHandle<()>,
}

impl<'a> Journal<'a> {
    pub fn new(state: &'a State, state_dir: &Path, run: &str) -> Self {
        let (state_dir, run) = (state_dir.to_owned(), run.to_owned());
        Self { state, state_dir, run, pending: Vec::new(), writer: None }
    }

    /// Adds a record, which is in the state after the next [`Journal::flush`].
    pub fn add(&mut self, row: NodeRow) {
        self.pending.push(row);
        if self.pending.len() < BATCH {
            return;
        }
        let writer = self.writer.get_or_insert_with(|| Writer::start(&self.state_dir, &self.run));
        let batch = std::mem::take(&mut self.pending);
        match writer.batches.send(batch) {
            Ok(()) => writer.open += 1,
            // A writer that ended has said why, which the next flush returns.
            Err(unsent) => self.pending = unsent.0,
        }
    }

    /// Brings every record into the state.
    pub fn flush(&mut self) -> Result<(), StateError> {
        if let Some(writer) = &mut self.writer {
            while writer.open > 0 {
                let Ok(answer) = writer.answers.recv() else { break };
                writer.open -= 1;
                answer?;
            }
            if writer.thread.is_finished()
                && let Some(Err(panic)) = self.writer.take().map(|writer| writer.thread.join())
            {
                // A bug of ours must not look like success.
                std::panic::resume_unwind(panic);
            }
        }
        if !self.pending.is_empty() {
            self.state.record_nodes(&self.run, &self.pending)?;
            self.pending.clear();
        }
        Ok(())
    }
}

impl Writer {
    fn start(state_dir: &Path, run: &str) -> Self {
        let (batches, received) = channel::<Vec<NodeRow>>();
        let (answer, answers) = channel();
        let (state_dir, run) = (state_dir.to_owned(), run.to_owned());
        let thread = std::thread::spawn(move || {
            let state = State::open(&state_dir);
            for batch in received {
                let written = match &state {
                    Ok(state) => state.record_nodes(&run, &batch),
                    Err(_) => break,
                };
                if answer.send(written).is_err() {
                    return;
                }
            }
            if let Err(error) = state {
                let _ = answer.send(Err(error));
            }
        });
        Self { batches, answers, open: 0, thread }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(number: usize) -> NodeRow {
        NodeRow {
            node: format!("n{number}"),
            kind: "run".to_owned(),
            outcome: "reused".to_owned(),
            reason: None,
            key: None,
            evidence: None,
            attempt: 1,
            started_at: "2026-11-30T00:00:00Z".to_owned(),
            took_ms: 0,
        }
    }

    #[test]
    fn records_are_in_the_state_after_a_flush_in_the_order_they_came() {
        let dir = tempfile::tempdir().unwrap();
        let state = State::open(dir.path()).unwrap();
        state.begin_run("r", "p", "2026-11-30T00:00:00Z").unwrap();
        let mut journal = Journal::new(&state, dir.path(), "r");
        let mut expected = Vec::new();
        for many in [3, 2 * BATCH + 5, 1, BATCH] {
            for _ in 0..many {
                journal.add(row(expected.len()));
                expected.push(format!("n{}", expected.len()));
            }
            journal.flush().unwrap();
            let nodes: Vec<String> =
                state.node_records("r").unwrap().into_iter().map(|row| row.node).collect();
            assert_eq!(nodes, expected);
        }
    }

    #[test]
    fn records_that_cannot_be_written_are_an_error_of_the_flush() {
        let dir = tempfile::tempdir().unwrap();
        let state = State::open(dir.path()).unwrap();
        for many in [1, BATCH + 1] {
            let mut journal = Journal::new(&state, dir.path(), "a run that never began");
            (0..many).for_each(|number| journal.add(row(number)));
            journal.flush().unwrap_err();
        }
    }
}
