//! `orchestrate logs`: what a node wrote while it ran.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;

use super::{CommandError, DONE, StateArgs};
use crate::plan::diagnostic::nearest;
use crate::state::State;

/// How many runs or nodes an error names.
const NAMED: usize = 10;

/// Arguments of `logs`.
#[derive(Debug, Args)]
pub(super) struct LogsArgs {
    /// The node, such as `load` or `load[target=llama-cpp]`.
    node: String,
    /// The run; without it the newest in which the node did its work.
    #[arg(long, value_name = "RUN")]
    run: Option<String>,
    #[command(flatten)]
    state: StateArgs,
}

/// Runs the command.
pub(super) fn run(args: &LogsArgs) -> Result<u8, CommandError> {
    let runs = State::read(&args.state.state, |state| state.latest_runs(u32::MAX))?.unwrap_or_default();
    let log = find(&args.state.state.join("runs"), &runs, args).map_err(CommandError::Usage)?;
    let unreadable = |source| CommandError::Io { what: format!("{} cannot be read", log.display()), source };
    let mut file = File::open(&log).map_err(unreadable)?;
    match io::copy(&mut file, &mut io::stdout().lock()) {
        // Whoever reads it has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(DONE),
        copied => copied.map(|_| DONE).map_err(unreadable),
    }
}

/// The log that is asked for, or what there is instead.
fn find(dir: &Path, runs: &[String], args: &LogsArgs) -> Result<PathBuf, String> {
    let LogsArgs { node, run, state } = args;
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
        return Ok(dir.join(run).join(node).join("log"));
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

/// The nodes of a run that wrote something.
fn nodes_with_logs(run: &Path) -> Vec<String> {
    let entries = fs::read_dir(run).into_iter().flatten().flatten();
    let logged = entries.filter(|entry| entry.path().join("log").is_file());
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
