//! `orchestrate graph`: what depends on what, and what of it is in the store.

use clap::{Args, ValueEnum};

use super::dry::Loaded;
use super::nodes::SelectionArgs;
use super::{CommandError, DONE, PlanArgs, print_line, print_text};
use crate::report::graph;
use crate::run::{self, Action};

/// Arguments of `graph`.
#[derive(Debug, Args)]
pub(super) struct GraphArgs {
    #[command(flatten)]
    plan: PlanArgs,
    /// The form of the graph.
    #[arg(long, value_enum, default_value_t = Form::Mermaid)]
    format: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    Dot,
    Mermaid,
    Json,
}

/// Runs the command.
pub(super) fn run(args: &GraphArgs) -> Result<u8, CommandError> {
    let loaded = Loaded::new(&args.plan)?;
    let (plan, dag) = (&loaded.plan, &loaded.dag);
    let forecast = loaded.ask(None, false, &SelectionArgs::default(), run::forecast)?;
    let reused = forecast.nodes.iter().filter(|node| node.action == Action::Reuse);
    let cached = reused.map(|node| node.node.as_str()).collect();
    match args.format {
        Form::Dot => print_text(graph::dot(plan, dag, &cached))?,
        Form::Mermaid => print_text(graph::mermaid(plan, dag, &cached))?,
        Form::Json => print_line(format_args!("{:#}", graph::json(plan, dag, &cached)))?,
    }
    Ok(DONE)
}
