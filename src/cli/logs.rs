//! `orchestrate logs`: what a node wrote while it ran.

mod end;
mod follow;

use std::fs::{self, File};
use std::io::{self, IsTerminal, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use clap::Args;

use self::follow::Follower;
use super::{CommandError, DONE, StateArgs, secrets};
use crate::plan::diagnostic::nearest;
use crate::process::log::{attempts_in, of_attempt};
use crate::report::log::LogPrinter;
use crate::state::State;

/// How many runs or nodes an error names.
const NAMED: usize = 10;
/// Bytes of a log that are read at a time.
const PIECE: usize = 64 << 10;

/// Arguments of `logs`.
#[derive(Debug, Args)]
pub(super) struct LogsArgs {
    /// The node, such as `load` or `load[target=llama-cpp]`.
    node: String,
    /// The run; without it the newest in which the node did its work.
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    /// The attempt, from 1; without it the last.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    attempt: Option<u32>,
    /// The last lines only.
    #[arg(long, value_name = "N")]
    lines: Option<usize>,
    /// Go on until the node has ended, with its later attempts.
    #[arg(long, short)]
    follow: bool,
    #[command(flatten)]
    state: StateArgs,
}

/// A log in a project's state directory.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Log {
    run: String,
    /// The node's directory in the run.
    dir: PathBuf,
    attempt: u32,
}

impl Log {
    fn path(&self) -> PathBuf {
        of_attempt(&self.dir, self.attempt)
    }

    fn open(&self) -> Result<File, CommandError> {
        File::open(self.path()).map_err(|source| self.unreadable(source))
    }

    fn unreadable(&self, source: io::Error) -> CommandError {
        CommandError::Io { what: format!("{} cannot be read", self.path().display()), source }
    }
}

/// Runs the command.
pub(super) fn run(args: &LogsArgs) -> Result<u8, CommandError> {
    let masker = secrets();
    let stdout = io::stdout();
    let mut printer = LogPrinter::new(stdout.lock(), &masker, stdout.is_terminal());
    let written = if args.follow {
        Follower::begin(args)?.follow(&mut printer)?
    } else {
        let log =
            find(&args.state.state.join("runs"), &all_runs(args)?, args).map_err(CommandError::Usage)?;
        let mut file = log.open()?;
        let length = file.metadata().map_err(|source| log.unreadable(source))?.len();
        let from = first_shown(&mut file, args).map_err(|source| log.unreadable(source))?;
        // What is written meanwhile belongs to `--follow`.
        copy(&mut file.take(length.saturating_sub(from)), &mut printer, &log)?
    };
    let finished = written.and_then(|()| printer.finish().map(drop));
    match finished {
        // Whoever reads it has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(DONE),
        finished => finished.map(|()| DONE).map_err(|source| CommandError::Io {
            what: "standard output cannot be written".to_owned(),
            source,
        }),
    }
}

fn all_runs(args: &LogsArgs) -> Result<Vec<String>, CommandError> {
    Ok(State::read(&args.state.state, |state| state.latest_runs(u32::MAX))?.unwrap_or_default())
}

/// Where in the file that which is asked for begins; the file stands there.
fn first_shown(file: &mut File, args: &LogsArgs) -> io::Result<u64> {
    let from = args.lines.map_or(Ok(0), |lines| end::of_last_lines(file, lines))?;
    file.seek(SeekFrom::Start(from))
}

/// Prints what is left of a log. The inner error is one of printing.
fn copy<W: io::Write>(
    from: &mut impl Read,
    printer: &mut LogPrinter<'_, W>,
    log: &Log,
) -> Result<io::Result<()>, CommandError> {
    let mut piece = vec![0; PIECE];
    loop {
        match from.read(&mut piece) {
            Ok(0) => return Ok(Ok(())),
            Ok(read) => {
                if let Err(error) = printer.print(&piece[..read]) {
                    return Ok(Err(error));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(log.unreadable(error)),
        }
    }
}

/// The log that is asked for, or what there is instead.
fn find(dir: &Path, runs: &[String], args: &LogsArgs) -> Result<Log, String> {
    let LogsArgs { node, run, state, .. } = args;
    if runs.is_empty() {
        return Err(format!(
            "{} knows no run yet; run `orchestrate apply PLAN` first",
            state.state.display()
        ));
    }
    let asked = match run {
        Some(run) if !runs.contains(run) => {
            return Err(format!("there is no run {run}; the newest are {}", some(runs)));
        }
        Some(run) => std::slice::from_ref(run),
        None => runs,
    };
    let logged = |run: &String| nodes_with_logs(&dir.join(run)).contains(node);
    if let Some(run) = asked.iter().find(|run| logged(run)) {
        return attempt(Log { run: run.clone(), dir: dir.join(run).join(node), attempt: 1 }, args);
    }
    let mut known: Vec<String> = asked.iter().flat_map(|run| nodes_with_logs(&dir.join(run))).collect();
    known.sort_unstable();
    known.dedup();
    let place = run.as_ref().map_or_else(|| "any run".to_owned(), |run| format!("run {run}"));
    let elsewhere = run.is_some().then(|| runs.iter().find(|run| logged(run))).flatten();
    Err(match (elsewhere, known.is_empty()) {
        (Some(other), _) => format!("{node} left no log in {place}; it did its work in --run {other}"),
        (None, true) => format!("{node} left no log in {place}, and no other node did"),
        (None, false) => format!("{node} left no log in {place}; {}", instead(&known, node)),
    })
}

/// The attempt of a log that is asked for.
fn attempt(log: Log, args: &LogsArgs) -> Result<Log, String> {
    let attempts = attempts_in(&log.dir);
    let last = attempts.last().copied().unwrap_or(1);
    match args.attempt.unwrap_or(last) {
        attempt if attempts.contains(&attempt) => Ok(Log { attempt, ..log }),
        attempt => {
            let there: Vec<String> = attempts.iter().map(ToString::to_string).collect();
            let (node, run) = (&args.node, &log.run);
            Err(format!(
                "{node} left no log of attempt {attempt} in run {run}; those it left are of {}",
                some(&there)
            ))
        }
    }
}

/// The nodes of a run that wrote something.
fn nodes_with_logs(run: &Path) -> Vec<String> {
    let entries = fs::read_dir(run).into_iter().flatten().flatten();
    let logged = entries.filter(|entry| !attempts_in(&entry.path()).is_empty());
    logged.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// What may be meant, or what there is.
fn instead(known: &[String], node: &str) -> String {
    let instances: Vec<String> =
        known.iter().filter(|name| name.split('[').next() == Some(node)).cloned().collect();
    if !instances.is_empty() {
        return format!("its instances are {}", some(&instances));
    }
    match nearest(node, known.iter().map(String::as_str)) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("nodes that did are {}", some(known)),
    }
}

/// The first of many names.
fn some(names: &[String]) -> String {
    let shown = names.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
