//! `orchestrate explain`: everything that decides whether a node runs.

use clap::Args;

use super::dry::{DryArgs, Loaded};
use super::nodes::{SelectionArgs, instance, unknown};
use super::{CommandError, DONE, PlanArgs, print_json, print_text, stdout_paint, terminal_width};
use crate::report;
use crate::run;

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub(super) struct ExplainArgs {
    #[command(flatten)]
    plan: PlanArgs,
    /// The node, such as `load` or `load[target=llama-cpp]`.
    node: String,
    #[command(flatten)]
    dry: DryArgs,
}

/// Runs the command.
pub(super) fn run(args: &ExplainArgs) -> Result<u8, CommandError> {
    let loaded = Loaded::new(&args.plan)?;
    let name = instance(&loaded.plan, &args.node).map_err(CommandError::Usage)?;
    let explain = |question: &run::Question<'_>| run::explain(question, name);
    let explained =
        loaded.ask(Some(&args.dry.state.state), args.dry.remeasure, &SelectionArgs::default(), explain)?;
    let explained = explained.ok_or_else(|| CommandError::Usage(unknown(&loaded.plan, name)))?;
    if args.dry.json {
        print_json(&explained)?;
    } else {
        print_text(report::explain::text(&explained, terminal_width().into(), stdout_paint()))?;
    }
    Ok(DONE)
}
