//! Runs a plan: decides what must run, starts it when it can, and records
//! what became of it.
//!
//! This room knows nothing of YAML and nothing of how events are shown.

mod agenda;
mod difference;
mod execution;
mod forecast;
mod foresight;
mod journal;
mod key;
mod leases;
mod lock;
mod outcome;
mod priority;
mod progress;
mod publish;
mod quiet;
mod record;
mod recovery;
mod resources;
pub mod retention;
mod scheduler;
mod selection;
mod services;
mod standing;
mod walk;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use jiff::tz::TimeZone;

use self::walk::Walk;
use crate::dag::Dag;
use crate::event::Event;
use crate::host::Requirement;
use crate::node::World;
use crate::plan::{Plan, Target};
use crate::state::{State, StateError};
use crate::store::{Store, StoreError, StoreUse};

pub use difference::Change;
pub use forecast::{
    Action, ExplainedInput, Explanation, Forecast, ForecastNode, LastKey, Measured, Question, Totals,
    explain, forecast,
};
pub use foresight::Foresight;
pub use leases::LeaseBook;
pub use outcome::{NodeResult, RunReport};
pub use progress::{UnfinishedRun, unfinished_runs};
pub use selection::Selection;

/// What the user asks for beside the plan.
#[derive(Debug, Clone)]
pub struct Options {
    /// The project's state directory, `.orchestrate`.
    pub state_dir: PathBuf,
    /// Whether what a failure does not block still runs.
    pub keep_going: bool,
    /// Whether measurements are made again although results are there.
    pub remeasure: bool,
    /// Targets whose missing requirements are a failure.
    pub require: Vec<String>,
    /// How many nodes may run at the same time.
    pub jobs: usize,
    /// The part of the plan that is run.
    pub selection: Selection,
    /// Whether to wait for another apply of this project to end.
    pub wait: bool,
    /// Values of the site file, for requirements.
    pub site: BTreeMap<String, String>,
}

/// A run could not begin or could not be recorded.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The project's state cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A directory of the run cannot be made.
    #[error("the run's directory {} cannot be made: {source}; check space and permissions", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The processes of a killed run cannot be told from strangers.
    #[error(
        "what a killed run left running cannot be told apart from other processes: \
         /proc/sys/kernel/random/boot_id cannot be read: {0}; mount /proc"
    )]
    Boot(std::io::Error),
    /// The user stopped it before it began.
    #[error("stopped while it waited for another apply of this project; nothing was run")]
    Interrupted,
}

/// A directory with a short path for one run, removed with it.
#[must_use]
pub fn scratch_dir(run: &str) -> PathBuf {
    recovery::scratch(run)
}

/// A name for a run that begins now: sortable, and unique by its process.
#[must_use]
pub fn run_id(now: Timestamp, pid: u32) -> String {
    format!("{}-{pid}", now.to_zoned(TimeZone::UTC).strftime("%Y%m%dT%H%M%SZ"))
}

/// Runs a plan to its end and records everything.
pub async fn apply(
    plan: &Plan,
    dag: &Dag,
    options: &Options,
    world: Arc<World>,
    foresight: Foresight,
) -> Result<RunReport, RunError> {
    let started = Instant::now();
    let (_lock, waited) = lock::acquire(&plan.name, options, &world).await?;
    // A run that was waited for may have left newer results.
    let foresight = if waited { Foresight::default() } else { foresight };
    let _in_use = hold(&world.store).await?;
    world.store.remember_project(&options.state_dir)?;
    let state = State::open(&options.state_dir)?;
    recovery::recover(&state, &options.state_dir, &*world.events).await?;
    let now = timestamp(Timestamp::now());
    state.begin_run(&world.run, &plan.name, &now)?;
    state.lease(leases::own(&world.run).as_slice())?;
    (world.events)(Event::RunStarted {
        run: world.run.clone(),
        plan: plan.name.clone(),
        nodes: plan.nodes.len(),
    });
    let unmet = unmet(plan, &options.site, &world);
    let walk = Walk::new(plan, dag, Arc::clone(&world), &options.selection, &options.state_dir, unmet)?;
    let mut scheduler = scheduler::Scheduler::new(walk, options, &state, foresight);
    let nodes = scheduler.run().await?;
    let short = standing::settle(&state, plan, &world, &scheduler.subjects())?;
    let reports = publish::reports(plan, &nodes, &options.state_dir, &world)?;
    let required = plan.targets.iter().filter(|target| options.require.contains(&target.name));
    let exit_code =
        outcome::exit_code(&nodes, required.map(|target| target.name.as_str()), !short.is_empty());
    for event in short {
        (world.events)(event);
    }
    state.end_run(&world.run, &timestamp(Timestamp::now()), exit_code)?;
    // Made only by nodes that need it.
    let _ = std::fs::remove_dir(&world.scratch);
    let took = started.elapsed();
    (world.events)(Event::RunFinished { exit_code, took, reports: reports.clone() });
    Ok(RunReport { run: world.run.clone(), exit_code, nodes, reports, took })
}

/// Keeps `gc` away for as long as the run goes on. Where one is removing, its
/// end is waited for beside the async threads.
async fn hold(store: &Store) -> Result<StoreUse, StoreError> {
    let store = store.clone();
    let holding = tokio::task::spawn_blocking(move || store.hold()).await;
    holding.unwrap_or_else(|ended| std::panic::resume_unwind(ended.into_panic()))
}

/// The targets whose requirements do not hold, with the reason.
fn unmet(plan: &Plan, site: &BTreeMap<String, String>, world: &World) -> BTreeMap<String, String> {
    let reason = |target: &Target| {
        let check = |requirement: &Requirement| requirement.check(&world.host, &world.variables, site);
        let reasons: Vec<String> = target.requires.iter().filter_map(check).collect();
        (!reasons.is_empty())
            .then(|| (target.name.clone(), format!("target {} needs {}", target.name, reasons.join(", "))))
    };
    plan.targets.iter().filter_map(reason).collect()
}

/// RFC 3339 to the second, as records and people use it.
fn timestamp(at: Timestamp) -> String {
    at.to_zoned(TimeZone::UTC).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Milliseconds of a duration, as records hold them.
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
