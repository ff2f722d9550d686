//! `orchestrate plan`: what would run, what would be reused, and why.

use clap::Args;

use super::dry::{DryArgs, Loaded};
use super::nodes::SelectionArgs;
use super::{CommandError, DONE, PlanArgs, print_json, print_text, stdout_paint, terminal_width};
use crate::report;
use crate::run;

/// Arguments of `plan`.
#[derive(Debug, Args)]
pub(super) struct PlanCommandArgs {
    #[command(flatten)]
    plan: PlanArgs,
    #[command(flatten)]
    dry: DryArgs,
    #[command(flatten)]
    selection: SelectionArgs,
}

/// Runs the command.
pub(super) fn run(args: &PlanCommandArgs) -> Result<u8, CommandError> {
    let loaded = Loaded::new(&args.plan)?;
    let forecast =
        loaded.ask(Some(&args.dry.state.state), args.dry.remeasure, &args.selection, run::forecast)?;
    if args.dry.json {
        print_json(&forecast)?;
    } else {
        print_text(report::plan::text(&forecast, terminal_width().into(), stdout_paint()))?;
    }
    Ok(DONE)
}
