//! Prints a log while it is being written.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::path::Path;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use super::{Log, LogsArgs, all_runs, copy, find, first_shown};
use crate::cli::{CommandError, INTERRUPTED};
use crate::process::log::attempts_in;
use crate::report::log::LogPrinter;
use crate::run::unfinished_runs;
use crate::state::State;

/// Time between two looks at the log and at the run.
const POLL: Duration = Duration::from_millis(200);

/// A log that may still grow.
pub(super) struct Follower<'a> {
    args: &'a LogsArgs,
    log: Log,
    file: File,
    /// How far it was printed.
    at: u64,
}

impl<'a> Follower<'a> {
    /// Finds the log; of a run that goes on, waits until the node has one.
    pub fn begin(args: &'a LogsArgs) -> Result<Self, CommandError> {
        exit_when_interrupted()?;
        let state = &args.state.state;
        let runs_dir = state.join("runs");
        let mut said = false;
        let log = loop {
            // Asked before the log is looked for: one that began meanwhile is found.
            let going = running_run(state, args.run.as_deref())?;
            let runs = going.clone().map_or_else(|| all_runs(args), |run| Ok(vec![run]))?;
            match (find(&runs_dir, &runs, args), going) {
                (Ok(log), _) => break log,
                (Err(message), None) => return Err(CommandError::Usage(message)),
                (Err(_), Some(run)) if !said => {
                    eprintln!("waiting for {} in run {run}", args.node);
                    said = true;
                }
                (Err(_), Some(_)) => {}
            }
            std::thread::sleep(POLL);
        };
        let mut file = log.open()?;
        let at = first_shown(&mut file, args).map_err(|source| log.unreadable(source))?;
        Ok(Self { args, log, file, at })
    }

    /// Prints the log until the node has ended. The inner error is one of
    /// printing.
    pub fn follow<W: io::Write>(
        mut self,
        printer: &mut LogPrinter<'_, W>,
    ) -> Result<io::Result<()>, CommandError> {
        loop {
            // Asked before the log is read: what was written until then is printed.
            let ended = self.has_ended()?;
            if let Err(error) = self.print_news(printer)? {
                return Ok(Err(error));
            }
            if self.goes_on()? {
                continue;
            }
            if ended {
                return Ok(Ok(()));
            }
            std::thread::sleep(POLL);
        }
    }

    fn print_news<W: io::Write>(
        &mut self,
        printer: &mut LogPrinter<'_, W>,
    ) -> Result<io::Result<()>, CommandError> {
        let unreadable = |source| self.log.unreadable(source);
        let length = self.file.metadata().map_err(unreadable)?.len();
        if length < self.at {
            eprintln!("the log was cut; it goes on from its beginning");
            self.at = self.file.seek(SeekFrom::Start(0)).map_err(unreadable)?;
        }
        let written = copy(&mut self.file, printer, &self.log)?;
        self.at = self.file.stream_position().map_err(unreadable)?;
        Ok(written)
    }

    /// Moves to the next attempt, if there is one and none was asked for.
    fn goes_on(&mut self) -> Result<bool, CommandError> {
        if self.args.attempt.is_some() {
            return Ok(false);
        }
        let next = attempts_in(&self.log.dir).into_iter().find(|attempt| *attempt > self.log.attempt);
        let Some(attempt) = next else { return Ok(false) };
        eprintln!("attempt {attempt}");
        self.log.attempt = attempt;
        self.file = self.log.open()?;
        self.at = 0;
        Ok(true)
    }

    /// Whether nothing more comes: the node has an outcome, or its run ended.
    fn has_ended(&self) -> Result<bool, CommandError> {
        let state = &self.args.state.state;
        let run = &self.log.run;
        if running_run(state, Some(run))?.is_none() {
            return Ok(true);
        }
        let records = State::read(state, |state| state.node_records(run))?.unwrap_or_default();
        Ok(records.iter().any(|row| row.node == self.args.node && row.outcome != "running"))
    }
}

/// The run that goes on, if it is this one, or any.
fn running_run(state: &Path, wanted: Option<&str>) -> Result<Option<String>, CommandError> {
    let unfinished = State::read(state, unfinished_runs)?.unwrap_or_default();
    let mut alive = unfinished.into_iter().filter(|run| run.pid.is_some()).map(|run| run.run);
    Ok(alive.find(|run| wanted.is_none_or(|wanted| wanted == run)))
}

/// Ends the program at an interrupt, whatever it waits for.
fn exit_when_interrupted() -> Result<(), CommandError> {
    let unable = |source| CommandError::Io { what: "signals cannot be watched".to_owned(), source };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(unable)?;
    let mut interrupts = {
        let _inside = runtime.enter();
        signal(SignalKind::interrupt()).map_err(unable)?
    };
    std::thread::spawn(move || {
        runtime.block_on(interrupts.recv());
        std::process::exit(i32::from(INTERRUPTED));
    });
    Ok(())
}
