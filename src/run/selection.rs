//! The part of a plan that a run is asked for.

use std::collections::HashSet;

use crate::dag::Dag;

/// Which nodes may run. The others are taken from the store where they are
/// there, and left out where they are not.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// None selects the whole plan.
    part: Option<Part>,
}

#[derive(Debug, Clone)]
struct Part {
    selected: HashSet<String>,
    /// The selected nodes and everything they depend on.
    needed: HashSet<String>,
    /// The options that chose it, as they were written.
    chosen_by: String,
}

impl Selection {
    /// The nodes of every list that is not empty: `only` the nodes themselves,
    /// `from` the nodes and what depends on them, `until` the nodes and what
    /// they depend on. Without any list it is the whole plan.
    #[must_use]
    pub fn new(dag: &Dag, only: &[String], from: &[String], until: &[String]) -> Self {
        let lists = [
            ("--only", only, only.iter().cloned().collect()),
            ("--from", from, reached(from, |node| dag.dependents(node).collect())),
            ("--until", until, reached(until, |node| upstream(dag, node))),
        ];
        let given = lists.into_iter().filter(|(_, names, _)| !names.is_empty());
        let mut selected: Option<HashSet<String>> = None;
        let mut chosen_by = Vec::new();
        for (option, _, nodes) in given {
            chosen_by.push(option);
            selected = Some(match selected {
                None => nodes,
                Some(selected) => selected.intersection(&nodes).cloned().collect(),
            });
        }
        let part = selected.map(|selected| {
            let needed = reached(selected.iter(), |node| upstream(dag, node));
            Part { selected, needed, chosen_by: chosen_by.join(" and ") }
        });
        Self { part }
    }

    /// Whether no node is left of what was asked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.part.as_ref().is_some_and(|part| part.selected.is_empty())
    }

    /// Whether a node is asked for.
    pub(super) fn contains(&self, node: &str) -> bool {
        self.part.as_ref().is_none_or(|part| part.selected.contains(node))
    }

    /// Whether a node that is asked for depends on a node, or is it.
    pub(super) fn needs(&self, node: &str) -> bool {
        self.part.as_ref().is_none_or(|part| part.needed.contains(node))
    }

    /// Why a node that is not in the store is not run either.
    pub(super) fn why_left_out(&self, node: &str) -> String {
        let chosen_by = self.part.as_ref().map_or("", |part| part.chosen_by.as_str());
        if self.needs(node) {
            format!(
                "its result is not in the store and {chosen_by} leaves it out; --until runs what is needed"
            )
        } else {
            format!("left out by {chosen_by}")
        }
    }
}

fn upstream<'a>(dag: &'a Dag, node: &str) -> Vec<&'a str> {
    dag.dependencies(node).map(|(dependency, _)| dependency).collect()
}

/// Some nodes and everything that is reached from them.
fn reached<'a>(
    from: impl IntoIterator<Item = &'a String>,
    next: impl Fn(&str) -> Vec<&'a str>,
) -> HashSet<String> {
    let mut open: Vec<&str> = from.into_iter().map(String::as_str).collect();
    let mut found: HashSet<String> = open.iter().map(|&node| node.to_owned()).collect();
    while let Some(node) = open.pop() {
        for reached in next(node) {
            if found.insert(reached.to_owned()) {
                open.push(reached);
            }
        }
    }
    found
}
