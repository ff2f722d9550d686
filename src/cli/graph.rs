//! `orchestrate graph`: what depends on what.

use clap::{Args, ValueEnum};

use super::{CommandError, DONE, PlanArgs};
use crate::dag::Dag;
use crate::report::graph;

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
    let (plan, _) = args.plan.load()?;
    let dag = Dag::new(&plan)?;
    match args.format {
        Form::Dot => print!("{}", graph::dot(&plan, &dag)),
        Form::Mermaid => print!("{}", graph::mermaid(&plan, &dag)),
        Form::Json => println!("{:#}", graph::json(&plan, &dag)),
    }
    Ok(DONE)
}
