//! `orchestrate explain`: everything that decides whether a node runs.

use clap::Args;

use super::dry::{DryArgs, Loaded};
use super::{CommandError, DONE, PlanArgs, print_json, stdout_paint, terminal_width};
use crate::plan::Plan;
use crate::plan::diagnostic::nearest;
use crate::report;
use crate::run;

/// How many near names are shown for a name that is not there.
const NEAR: usize = 3;

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
    let explained = loaded.ask(Some(&args.dry.state.state), args.dry.remeasure, explain)?;
    let explained = explained.ok_or_else(|| CommandError::Usage(unknown(&loaded.plan, name)))?;
    if args.dry.json {
        print_json(&explained)?;
    } else {
        print!("{}", report::explain::text(&explained, terminal_width().into(), stdout_paint()));
    }
    Ok(DONE)
}

/// The instance that a name stands for: itself, or the only instance of it.
fn instance<'a>(plan: &'a Plan, name: &str) -> Result<&'a str, String> {
    if let Some(node) = plan.nodes.get(name) {
        return Ok(&node.name);
    }
    match instances(plan, name).as_slice() {
        [] => Err(unknown(plan, name)),
        [only] => Ok(only),
        several => Err(format!("{name} has several instances: {}; name one of them", several.join(", "))),
    }
}

fn instances<'a>(plan: &'a Plan, name: &str) -> Vec<&'a str> {
    let names = plan.nodes.keys().map(String::as_str);
    names.filter(|node| node.strip_prefix(name).is_some_and(|rest| rest.starts_with('['))).collect()
}

fn unknown(plan: &Plan, name: &str) -> String {
    let mut candidates: Vec<&str> =
        plan.nodes.keys().flat_map(|node| [node.as_str(), node.split('[').next().unwrap_or(node)]).collect();
    let mut near = Vec::new();
    while let Some(found) = nearest(name, candidates.iter().copied()).filter(|_| near.len() < NEAR) {
        candidates.retain(|candidate| *candidate != found);
        let those = if plan.nodes.contains_key(found) { vec![found] } else { instances(plan, found) };
        near.extend(those.into_iter().filter(|node| !near.contains(node)).collect::<Vec<_>>());
    }
    let help = match near.as_slice() {
        [] => format!("`orchestrate graph {}` shows all nodes", plan.file.path.display()),
        near => format!("near to it are {}", near.join(", ")),
    };
    format!("the plan {} has no node {name}; {help}", plan.name)
}
