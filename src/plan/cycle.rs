//! A cycle of a graph, as people follow it.

use std::collections::{HashMap, HashSet, VecDeque};

use petgraph::Direction;
use petgraph::graph::{DiGraph, NodeIndex};

/// The shortest cycle through the first node of a strongly connected part:
/// each depends on the next and the last on the first. Edges lead from what
/// is depended on.
#[must_use]
pub fn cycle_in<N, E>(graph: &DiGraph<N, E>, knot: &[NodeIndex]) -> Vec<NodeIndex> {
    let Some(first) = knot.iter().copied().min() else { return Vec::new() };
    let inside: HashSet<NodeIndex> = knot.iter().copied().collect();
    let mut dependent_of: HashMap<NodeIndex, NodeIndex> = HashMap::new();
    let mut open = VecDeque::from([first]);
    while let Some(at) = open.pop_front() {
        for dependency in graph.neighbors_directed(at, Direction::Incoming) {
            if dependency == first {
                return path(first, at, &dependent_of);
            }
            if inside.contains(&dependency) && !dependent_of.contains_key(&dependency) {
                dependent_of.insert(dependency, at);
                open.push_back(dependency);
            }
        }
    }
    Vec::new()
}

fn path(first: NodeIndex, last: NodeIndex, dependent_of: &HashMap<NodeIndex, NodeIndex>) -> Vec<NodeIndex> {
    let mut path = vec![last];
    while let Some(dependent) = path.last().filter(|at| **at != first).and_then(|at| dependent_of.get(at)) {
        path.push(*dependent);
    }
    path.reverse();
    path
}
