//! `orchestrate apply`: run a plan.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use super::nodes::SelectionArgs;
use super::{CommandError, INTERRUPTED, PlanArgs, StateArgs, draws, secrets, store_dir, terminal_width};
use crate::dag::Dag;
use crate::evidence::host::Host;
use crate::evidence::redact::SiteValues;
use crate::node::{Programs, World};
use crate::process::Interrupt;
use crate::run::{self, Foresight, Options, RunReport};
use crate::store::Store;
use crate::{host, process, report};

/// Arguments of `apply`.
#[derive(Debug, Args)]
pub(super) struct ApplyArgs {
    #[command(flatten)]
    plan: PlanArgs,
    #[command(flatten)]
    state: StateArgs,
    /// Run what a failure does not block.
    #[arg(long)]
    keep_going: bool,
    /// Measure again although results are there.
    #[arg(long)]
    remeasure: bool,
    #[command(flatten)]
    selection: SelectionArgs,
    /// Fail if a requirement of this target is missing. May be repeated.
    #[arg(long, value_name = "TARGET")]
    require: Vec<String>,
    /// How many nodes may run at the same time.
    #[arg(long, value_name = "N", default_value_t = default_jobs())]
    jobs: usize,
    /// Wait while another apply of this project runs, instead of ending at once.
    #[arg(long)]
    wait: bool,
}

fn default_jobs() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from).max(2)
}

/// Runs the command.
pub(super) fn run(args: &ApplyArgs) -> Result<u8, CommandError> {
    let foresight = Foresight::begin(&args.state.state, Store::read_only(&store_dir()?));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(
            |source| CommandError::Io { what: "the async runtime could not start".to_owned(), source },
        )?;
    // The machine answers while the plan is being read.
    let probing = runtime.spawn(async {
        let variables = process::base_environment(std::env::vars_os());
        let host = host::probe(&variables).await;
        (variables, host)
    });
    let loaded = args.plan.load();
    let probed =
        runtime.block_on(probing).unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
    let (plan, site) = loaded?;
    if let Some(unknown) = args.require.iter().find(|name| !plan.targets.iter().any(|t| t.name == **name)) {
        let known: Vec<_> = plan.targets.iter().map(|target| target.name.as_str()).collect();
        let message = format!("--require {unknown}: the plan's targets are {}", known.join(", "));
        return Err(CommandError::Usage(message));
    }
    let dag = Dag::new(&plan)?;
    let selection = args.selection.of(&plan, &dag)?;
    let store = Store::open(&store_dir()?)?;
    let private = SiteValues::new(&site, &plan.texts());
    let options = Options {
        state_dir: args.state.state.clone(),
        keep_going: args.keep_going,
        remeasure: args.remeasure,
        require: args.require.clone(),
        jobs: args.jobs.max(1),
        selection,
        wait: args.wait,
        site,
    };
    let report: RunReport = runtime.block_on(async {
        let world = world(store, private, &args.state.state, probed)?;
        Ok::<_, CommandError>(run::apply(&plan, &dag, &options, Arc::new(world), foresight).await?)
    })?;
    Ok(report.exit_code)
}

fn world(
    store: Store,
    site: SiteValues,
    state_dir: &Path,
    (variables, host): (BTreeMap<String, String>, Host),
) -> Result<World, CommandError> {
    let no_color = std::env::var_os("NO_COLOR").is_some();
    let reporter = Mutex::new(report::reporter(draws(), no_color, terminal_width()));
    let run_id = run::run_id(jiff::Timestamp::now(), std::process::id());
    Ok(World {
        store,
        variables,
        site,
        secrets: secrets(),
        supervisor: process::child::this_executable().to_owned(),
        host,
        events: Box::new(move |event| reporter.lock().unwrap_or_else(PoisonError::into_inner).report(&event)),
        leases: Arc::new(run::LeaseBook::new(state_dir, &run_id)),
        cancelled: cancellation()?,
        scratch: run::scratch_dir(&run_id),
        run: run_id,
        programs: Programs::default(),
    })
}

/// Rises when the user says to stop: the first word ends the run in order, the
/// second without any grace, a third leaves all to the supervisors.
fn cancellation() -> Result<Interrupt, CommandError> {
    let watched = |kind: SignalKind| {
        signal(kind)
            .map_err(|source| CommandError::Io { what: "signals cannot be watched".to_owned(), source })
    };
    let mut interrupts = watched(SignalKind::interrupt())?;
    let mut terminations = watched(SignalKind::terminate())?;
    let mut hangups = watched(SignalKind::hangup())?;
    let (interrupter, interrupt) = process::interrupt();
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = interrupts.recv() => {}
                _ = terminations.recv() => {}
                // A terminal that closes may say so more than once.
                _ = hangups.recv(), if !interrupter.is_raised() => {}
            }
            if interrupter.raise().is_none() {
                std::process::exit(INTERRUPTED.into());
            }
        }
    });
    Ok(interrupt)
}
