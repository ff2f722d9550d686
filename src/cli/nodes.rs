//! Nodes as they are named on the command line.

use clap::Args;

use super::CommandError;
use crate::dag::Dag;
use crate::plan::Plan;
use crate::plan::diagnostic::nearest;
use crate::run::Selection;

/// How many near names are shown for a name that is not there.
const NEAR: usize = 3;

/// Which part of a plan is run. The rest is taken from the store. Options that
/// are given together choose what each of them chooses.
#[derive(Debug, Default, Args)]
pub(super) struct SelectionArgs {
    /// Run only this node. May be repeated.
    #[arg(long, value_name = "NODE")]
    only: Vec<String>,
    /// Run only this node and what depends on it. May be repeated.
    #[arg(long, value_name = "NODE")]
    from: Vec<String>,
    /// Run only this node and what it depends on. May be repeated.
    #[arg(long, value_name = "NODE")]
    until: Vec<String>,
}

impl SelectionArgs {
    /// The part of a plan that is meant; a name without an instance means all
    /// instances.
    pub fn of(&self, plan: &Plan, dag: &Dag) -> Result<Selection, CommandError> {
        let named = |names: &[String]| -> Result<Vec<String>, CommandError> {
            let nodes: Result<Vec<Vec<String>>, _> = names.iter().map(|name| all_of(plan, name)).collect();
            Ok(nodes.map_err(CommandError::Usage)?.concat())
        };
        let selection = Selection::new(dag, &named(&self.only)?, &named(&self.from)?, &named(&self.until)?);
        if selection.is_empty() {
            let message =
                "no node is left: nothing that --from chooses is among what --until or --only choose";
            return Err(CommandError::Usage(message.to_owned()));
        }
        Ok(selection)
    }
}

/// Every instance that a name stands for.
fn all_of(plan: &Plan, name: &str) -> Result<Vec<String>, String> {
    if plan.nodes.contains_key(name) {
        return Ok(vec![name.to_owned()]);
    }
    match instances(plan, name) {
        found if found.is_empty() => Err(unknown(plan, name)),
        found => Ok(found.into_iter().map(str::to_owned).collect()),
    }
}

/// The instance that a name stands for: itself, or the only instance of it.
pub(super) fn instance<'a>(plan: &'a Plan, name: &str) -> Result<&'a str, String> {
    if let Some(node) = plan.nodes.get(name) {
        return Ok(&node.name);
    }
    match instances(plan, name).as_slice() {
        [] => Err(unknown(plan, name)),
        [only] => Ok(only),
        several => Err(format!("{name} has several instances: {}; name one of them", several.join(", "))),
    }
}

/// The instances of a node that has several or one in brackets.
fn instances<'a>(plan: &'a Plan, name: &str) -> Vec<&'a str> {
    let names = plan.nodes.keys().map(String::as_str);
    names.filter(|node| node.strip_prefix(name).is_some_and(|rest| rest.starts_with('['))).collect()
}

/// That there is no such node, and which are near.
pub(super) fn unknown(plan: &Plan, name: &str) -> String {
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
