//! Which of the nodes that could start is started first: the one with the
//! most time still to come after it, so that the longest chain is never kept
//! waiting (critical path first).

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use crate::dag::Dag;

/// The nodes in the order in which they start, by how long each took before.
/// Every node comes after what it depends on. A node that never ran is taken
/// for an average one.
pub(super) fn order<'a>(dag: &'a Dag, took: &BTreeMap<&str, Duration>) -> Vec<&'a str> {
    let nodes = dag.order();
    let known = u32::try_from(took.len()).ok().filter(|known| *known > 0);
    let average = known.map_or(Duration::from_secs(1), |known| took.values().sum::<Duration>() / known);
    // Nodes of no time would stand level with what they depend on.
    let own = |node: &str| took.get(node).copied().unwrap_or(average).max(Duration::from_millis(1));
    let mut to_come: HashMap<&str, Duration> = HashMap::with_capacity(nodes.len());
    for node in nodes.iter().rev() {
        let after = dag.dependents(node).filter_map(|dependent| to_come.get(dependent)).max().copied();
        to_come.insert(node, own(node) + after.unwrap_or_default());
    }
    let mut order: Vec<&str> = nodes.iter().map(String::as_str).collect();
    order.sort_by_key(|node| Reverse(to_come[node]));
    order
}
