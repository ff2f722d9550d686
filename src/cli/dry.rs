//! What the commands that only look have in common: nothing is written,
//! locked or started but questions to `nvidia-smi` and `python3`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use clap::Args;

use super::nodes::SelectionArgs;
use super::{CommandError, PlanArgs, StateArgs, secrets, store_dir};
use crate::dag::Dag;
use crate::evidence::redact::SiteValues;
use crate::node::{Programs, World};
use crate::plan::Plan;
use crate::run::{self, Question, RunError};
use crate::state::State;
use crate::store::Store;
use crate::{host, process};

/// Arguments of the commands that say what an `apply` would do.
#[derive(Debug, Args)]
pub(super) struct DryArgs {
    #[command(flatten)]
    pub state: StateArgs,
    /// As if measurements were made again although results are there.
    #[arg(long)]
    pub remeasure: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// A loaded plan with its graph.
pub(super) struct Loaded {
    pub plan: Plan,
    pub dag: Dag,
    site: BTreeMap<String, String>,
}

impl Loaded {
    /// Loads a plan and builds its graph.
    pub fn new(args: &PlanArgs) -> Result<Self, CommandError> {
        let (plan, site) = args.load()?;
        let dag = Dag::new(&plan)?;
        Ok(Self { plan, dag, site })
    }

    /// Asks what would become of the plan. Of the state only the last results
    /// are read; without a state directory nothing is known of them.
    pub fn ask<T>(
        &self,
        state_dir: Option<&Path>,
        remeasure: bool,
        selection: &SelectionArgs,
        answer: impl FnOnce(&Question<'_>) -> Result<T, RunError>,
    ) -> Result<T, CommandError> {
        let last_results = |dir| State::read(dir, |state| state.last_results(&self.plan.name));
        let last = state_dir.map(last_results).transpose()?.flatten().unwrap_or_default();
        let question = Question {
            plan: &self.plan,
            dag: &self.dag,
            world: Arc::new(world(
                Store::read_only(&store_dir()?),
                SiteValues::new(&self.site, &self.plan.texts()),
            )?),
            state_dir: state_dir.unwrap_or(Path::new(".orchestrate")),
            site: &self.site,
            remeasure,
            selection: selection.of(&self.plan, &self.dag)?,
            now: jiff::Timestamp::now(),
            last,
        };
        Ok(answer(&question)?)
    }
}

/// A world in which nothing is run.
fn world(store: Store, site: SiteValues) -> Result<World, CommandError> {
    let io = |source| CommandError::Io { what: "the async runtime could not start".to_owned(), source };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(io)?;
    let variables = process::base_environment(std::env::vars_os());
    let host = runtime.block_on(host::probe(&variables));
    let run_id = "forecast".to_owned();
    Ok(World {
        store,
        variables,
        site,
        secrets: secrets(),
        supervisor: process::child::this_executable().to_owned(),
        host,
        events: Box::new(drop),
        leases: Arc::new(process::NoLeases),
        cancelled: process::Interrupt::never(),
        scratch: run::scratch_dir(&run_id),
        run: run_id,
        programs: Programs::default(),
    })
}
