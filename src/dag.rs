//! A plan as a graph: what depends on what, in which order, and what is
//! impossible.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap, HashSet};
use std::sync::Arc;

use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::EdgeRef;
use petgraph::{Direction, algo};

use crate::plan::{Diagnostic, Diagnostics, Plan, Slip, cycle_in};

/// Why one node depends on another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Edge {
    /// It reads what the other left, so the other must have passed.
    Data,
    /// It is written under `needs:`, so the other must have passed.
    Order,
    /// It reads whatever the other left, passed or not.
    Any,
}

/// The nodes of a plan with their dependencies; it has no cycle.
#[derive(Debug)]
pub struct Dag {
    graph: DiGraph<String, Edge>,
    index: HashMap<String, NodeIndex>,
    order: Vec<String>,
}

impl Dag {
    /// Builds the graph. The error names a cycle with the line of each edge,
    /// or a subject that is timed before it is validated.
    pub fn new(plan: &Plan) -> Result<Self, Diagnostics> {
        let mut graph = DiGraph::new();
        let index: HashMap<String, NodeIndex> =
            plan.nodes.keys().map(|name| (name.clone(), graph.add_node(name.clone()))).collect();
        for node in plan.nodes.values() {
            let mut edges: BTreeSet<(NodeIndex, Edge)> = BTreeSet::new();
            let data = node.references.iter().map(|reference| (reference.as_str(), Edge::Data));
            let order = node.needs.iter().map(|need| (need.as_str(), Edge::Order));
            let subjects = plan.subjects.iter().filter(|_| node.kind.reads_subjects());
            let any =
                subjects.flat_map(|subject| subject.roles.iter().map(|(_, node)| (node.as_str(), Edge::Any)));
            for (name, edge) in data.chain(order).chain(any) {
                edges.extend(index.get(name).map(|from| (*from, edge)));
            }
            for (from, edge) in edges {
                graph.add_edge(from, index[&node.name], edge);
            }
        }
        let order = in_order(&graph);
        if order.len() < graph.node_count() {
            return Err(cycle(plan, &graph));
        }
        let order = order.into_iter().map(|at| graph[at].clone()).collect();
        let dag = Self { graph, index, order };
        dag.check_subjects(plan)?;
        Ok(dag)
    }

    /// Every node after what it depends on.
    #[must_use]
    pub fn order(&self) -> &[String] {
        &self.order
    }

    /// What a node depends on, and why.
    pub fn dependencies(&self, node: &str) -> impl Iterator<Item = (&str, Edge)> {
        let edges = self.index.get(node).map(|at| self.graph.edges_directed(*at, Direction::Incoming));
        edges.into_iter().flatten().map(|edge| (self.graph[edge.source()].as_str(), *edge.weight()))
    }

    /// Nodes that depend on a node.
    pub fn dependents(&self, node: &str) -> impl Iterator<Item = &str> {
        let edges = self.index.get(node).map(|at| self.graph.edges_directed(*at, Direction::Outgoing));
        edges.into_iter().flatten().map(|edge| self.graph[edge.target()].as_str())
    }

    /// Whether a node depends on another, directly or through others, looked
    /// for no further back than the other stands in the order.
    fn follows(&self, node: &str, on: &str, place: &HashMap<&str, usize>) -> bool {
        let mut seen = HashSet::new();
        let mut open = vec![node];
        while let Some(next) = open.pop() {
            for (dependency, _) in self.dependencies(next) {
                if dependency == on {
                    return true;
                }
                if place.get(dependency) > place.get(on) && seen.insert(dependency) {
                    open.push(dependency);
                }
            }
        }
        false
    }

    /// The evidence of a subject has to be of one run: the load after the
    /// validation and the warmup, the correlation of that load, the audit of
    /// that correlation.
    fn check_subjects(&self, plan: &Plan) -> Result<(), Diagnostics> {
        let mut mistakes = Vec::new();
        let place: HashMap<&str, usize> =
            self.order.iter().enumerate().map(|(place, node)| (node.as_str(), place)).collect();
        for subject in &plan.subjects {
            let role = |role: &str| {
                subject.roles.iter().find(|(name, _)| name == role).map(|(_, node)| node.as_str())
            };
            let directly =
                |node: &str, on: &str| self.dependencies(node).any(|(dependency, _)| dependency == on);
            let pairs = [
                (
                    "load",
                    "validation",
                    "may run before",
                    "let the load or its warmup wait for it, by `needs:`",
                ),
                ("load", "warmup", "does not follow", "let the load wait for it, by `needs:`"),
                (
                    "correlation",
                    "load",
                    "is not of",
                    "name the same load in the subject and in the correlation",
                ),
                (
                    "audit",
                    "correlation",
                    "is not of",
                    "name the same correlation in the subject and in the audit",
                ),
            ];
            for (after, before, wrong, help) in pairs {
                let (Some(after_node), Some(before_node)) = (role(after), role(before)) else { continue };
                let holds = match before {
                    "validation" => self.follows(after_node, before_node, &place),
                    _ => directly(after_node, before_node),
                };
                let Some(node) = plan.nodes.get(after_node).filter(|_| !holds) else { continue };
                let message = format!("the {after} `{after_node}` {wrong} the {before} `{before_node}`");
                let slip = Slip::new(node.at, message).help(help);
                mistakes.push(Diagnostic { slip, file: Arc::clone(&node.file) });
            }
        }
        mistakes.dedup();
        if mistakes.is_empty() { Ok(()) } else { Err(Diagnostics::first(mistakes)) }
    }
}

/// Every node after what it depends on, otherwise in the order of the plan.
/// Nodes of a cycle, and those behind one, are left out.
fn in_order(graph: &DiGraph<String, Edge>) -> Vec<NodeIndex> {
    let incoming = |at: NodeIndex| graph.edges_directed(at, Direction::Incoming).count();
    let mut waits_for: Vec<usize> = graph.node_indices().map(incoming).collect();
    let free = graph.node_indices().filter(|at| waits_for[at.index()] == 0);
    let mut ready: BinaryHeap<Reverse<NodeIndex>> = free.map(Reverse).collect();
    let mut order = Vec::with_capacity(graph.node_count());
    while let Some(Reverse(at)) = ready.pop() {
        order.push(at);
        for dependent in graph.neighbors_directed(at, Direction::Outgoing) {
            waits_for[dependent.index()] -= 1;
            if waits_for[dependent.index()] == 0 {
                ready.push(Reverse(dependent));
            }
        }
    }
    order
}

/// Names the nodes of one cycle, each with the line it is written on.
fn cycle(plan: &Plan, graph: &DiGraph<String, Edge>) -> Diagnostics {
    // The other algorithm for them recurses as deep as the plan is long.
    let knots = algo::kosaraju_scc(graph);
    let knot = knots
        .iter()
        .find(|knot| knot.len() > 1 || knot.first().is_some_and(|at| graph.contains_edge(*at, *at)));
    let cycle = knot.map(|knot| cycle_in(graph, knot)).unwrap_or_default();
    let names: Vec<&str> = cycle.iter().map(|at| graph[*at].as_str()).collect();
    let written: Vec<String> = names
        .iter()
        .filter_map(|name| plan.nodes.get(*name))
        .map(|node| format!("{} ({}:{})", node.name, node.file.path.display(), node.at.line))
        .collect();
    let Some(first) = names.first().and_then(|name| plan.nodes.get(*name)) else {
        return Diagnostics(Vec::new());
    };
    let reader =
        names.iter().filter_map(|name| plan.nodes.get(*name)).find(|node| node.kind.reads_subjects());
    let help = match reader {
        Some(node) => {
            format!("`{}` waits for the nodes of every subject: let none of them wait for it", node.name)
        }
        None => "remove one of the references or `needs:` between them".to_owned(),
    };
    let slip =
        Slip::new(first.at, format!("these nodes wait for each other: {}", written.join(" → "))).help(help);
    Diagnostics(vec![Diagnostic { slip, file: Arc::clone(&first.file) }])
}
