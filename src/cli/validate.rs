//! `orchestrate validate`: check plans without running anything.

use clap::Args;

use super::{CommandError, DONE, PlanArgs};
use crate::dag::Dag;

/// Arguments of `validate`.
#[derive(Debug, Args)]
pub(super) struct ValidateArgs {
    #[command(flatten)]
    plan: PlanArgs,
}

/// Runs the command.
pub(super) fn run(args: &ValidateArgs) -> Result<u8, CommandError> {
    let (plan, _) = args.plan.load()?;
    Dag::new(&plan)?;
    println!(
        "{}: {} nodes, {} targets, {} subjects; no mistakes",
        plan.name,
        plan.nodes.len(),
        plan.targets.len(),
        plan.subjects.len()
    );
    Ok(DONE)
}
