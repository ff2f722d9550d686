//! The command line: one short file per command.

mod apply;
mod dry;
mod explain;
mod gc;
mod graph;
mod logs;
mod new;
mod nodes;
mod plan;
mod schema;
mod status;
mod store;
mod validate;

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand};
use rustix::termios::tcgetwinsize;

use crate::plan::{Diagnostics, Disk, Given, Plan, load, read_site};
use crate::process::{Masker, secrets_in};
use crate::report::Paint;
use crate::run::RunError;
use crate::run::retention::RetentionError;
use crate::state::StateError;
use crate::store::StoreError;

/// Everything is done and every gate holds.
pub const DONE: u8 = 0;
/// The plan, the site file or the arguments are wrong.
pub const BAD_PLAN: u8 = 2;
/// The machine cannot run it.
pub const ENVIRONMENT: u8 = 3;
/// The user stopped it.
pub const INTERRUPTED: u8 = 130;

/// Qualifies LLM serving workloads from declarative plans, with evidence for
/// every status.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 done, 1 a node failed or a gate did not hold, 2 bad plan or arguments, \
                        3 the environment cannot run it, 130 interrupted."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a plan; what is already there is reused.
    Apply(apply::ApplyArgs),
    /// Show what would run, what would be reused, and why; run nothing.
    Plan(plan::PlanCommandArgs),
    /// Show everything that decides whether a node runs.
    Explain(explain::ExplainArgs),
    /// Show where each subject stands, by which evidence, and what is missing.
    Status(status::StatusArgs),
    /// Print what a node wrote while it ran.
    Logs(logs::LogsArgs),
    /// Check plans without running anything.
    Validate(validate::ValidateArgs),
    /// Print the graph of a plan as Mermaid, DOT or JSON.
    Graph(graph::GraphArgs),
    /// Remove from the store what nothing needs.
    Gc(gc::GcArgs),
    /// Show what is in the store, and whether it is whole.
    Store(store::StoreArgs),
    /// Begin a stage or a target from a commented file.
    New(new::NewArgs),
    /// Write the JSON Schemas and plans/README.md, or check them.
    Schema(schema::SchemaArgs),
}

/// What every command that reads a plan takes.
#[derive(Debug, Args)]
struct PlanArgs {
    /// The plan's file.
    plan: PathBuf,
    #[command(flatten)]
    given: GivenArgs,
}

/// What is given beside a plan.
#[derive(Debug, Args)]
struct GivenArgs {
    /// A file with the values of this machine.
    #[arg(long, value_name = "FILE")]
    site: Option<PathBuf>,
    /// Sets a parameter of the plan, or of a target as TARGET.NAME.
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = assignment)]
    set: Vec<(String, String)>,
}

/// Where the project keeps its state.
#[derive(Debug, Args)]
struct StateArgs {
    /// The project's state directory.
    #[arg(long, value_name = "DIR", default_value = ".orchestrate")]
    state: PathBuf,
}

/// A command could not do its work.
#[derive(Debug, thiserror::Error)]
enum CommandError {
    #[error("{0}")]
    Plan(#[from] Diagnostics),
    #[error("{0}")]
    Usage(String),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Retention(#[from] RetentionError),
    #[error("{what}: {source}")]
    Io { what: String, source: std::io::Error },
}

impl CommandError {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Plan(_) | Self::Usage(_) | Self::Retention(RetentionError::UnknownRun(_)) => BAD_PLAN,
            Self::Store(StoreError::InUse(_)) => 1,
            Self::Run(RunError::Interrupted) => INTERRUPTED,
            _ => ENVIRONMENT,
        }
    }
}

/// Parses the arguments, runs the command and returns its exit code.
#[must_use]
pub fn main() -> u8 {
    let cli = Cli::parse();
    let outcome = match cli.command {
        Command::Apply(args) => apply::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Logs(args) => logs::run(&args),
        Command::Validate(args) => validate::run(&args),
        Command::Graph(args) => graph::run(&args),
        Command::Gc(args) => gc::run(&args),
        Command::Store(args) => store::run(&args),
        Command::New(args) => new::run(&args),
        Command::Schema(args) => schema::run(&args),
    };
    outcome.unwrap_or_else(|error| {
        show(&error);
        error.exit_code()
    })
}

fn show(error: &CommandError) {
    match error {
        CommandError::Plan(diagnostics) => {
            let color = draws() && std::env::var_os("NO_COLOR").is_none();
            say(diagnostics.render(terminal_width().into(), color));
        }
        other => say(format_args!("error: {other}\n")),
    }
}

/// Writes to standard error. Where nobody reads it the exit code still tells.
fn say(text: impl fmt::Display) {
    let _ = write!(io::stderr().lock(), "{text}");
}

/// Whether standard error is a terminal that can draw.
fn draws() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// The colours of what goes to standard output.
fn stdout_paint() -> Paint {
    let draws = std::io::stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
    Paint::when(draws && std::env::var_os("NO_COLOR").is_none())
}

/// A document as it is printed for pipelines.
fn print_json(document: &impl serde::Serialize) -> Result<(), CommandError> {
    let text =
        serde_json::to_string_pretty(document).map_err(|error| CommandError::Usage(error.to_string()))?;
    print_line(text)
}

/// Writes a line to standard output.
fn print_line(line: impl fmt::Display) -> Result<(), CommandError> {
    print_text(format_args!("{line}\n"))
}

/// Writes to standard output. Where nobody reads it any more, as behind
/// `| head`, the rest is not written, which is no error.
fn print_text(text: impl fmt::Display) -> Result<(), CommandError> {
    let mut stdout = io::stdout().lock();
    match write!(stdout, "{text}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(|source| CommandError::Io {
            what: "standard output cannot be written".to_owned(),
            source,
        }),
    }
}

/// Columns of the terminal behind standard error; 100 where there is none.
fn terminal_width() -> u16 {
    let stated = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let measured =
        || tcgetwinsize(std::io::stderr()).ok().map(|size| size.ws_col).filter(|columns| *columns > 0);
    stated.or_else(measured).unwrap_or(100)
}

impl PlanArgs {
    /// Loads the plan with the site file and the command line; returns the
    /// values of the site beside it.
    fn load(&self) -> Result<(Plan, BTreeMap<String, String>), CommandError> {
        let given = self.given.read()?;
        Ok((load(&self.plan, &given)?, given.site))
    }
}

impl GivenArgs {
    fn read(&self) -> Result<Given, CommandError> {
        let site = match &self.site {
            Some(path) => read_site(&Disk, path)?,
            None => BTreeMap::new(),
        };
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        Ok(Given { site, set: self.set.clone(), variables })
    }
}

/// The secrets of our own environment.
fn secrets() -> Masker {
    let vars = std::env::vars_os();
    let vars: Vec<_> = vars
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    Masker::new(secrets_in(vars.iter().map(|(name, value)| (name.as_str(), value.as_str()))))
}

fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write it as NAME=VALUE".to_owned()),
    }
}

/// Where the user's store is: `$ORCHESTRATE_STORE`, else the XDG cache.
fn store_dir() -> Result<PathBuf, CommandError> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("ORCHESTRATE_STORE")
        .or_else(|| variable("XDG_CACHE_HOME").map(|cache| cache.join("orchestrate")))
        .or_else(|| variable("HOME").map(|home| home.join(".cache/orchestrate")))
        .and_then(|path| std::path::absolute(Path::new(&path)).ok())
        .ok_or_else(|| {
            CommandError::Usage("no place for the store: set ORCHESTRATE_STORE to a directory".to_owned())
        })
}
