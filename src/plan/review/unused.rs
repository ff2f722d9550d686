//! Nodes that nothing uses, where that looks like a slip.

use std::collections::HashSet;

use super::{Review, without_instance};
use crate::node::{Class, Kind};
use crate::plan::PlannedNode;

impl Review<'_> {
    /// A service starts for the nodes that use it, so one that nothing uses
    /// never starts. In a plan with subjects, a file or a bundle that no node
    /// and no subject refers to is made for nothing.
    pub fn unused(&mut self) {
        let nodes = self.plan.nodes.values();
        let mut used: HashSet<&str> =
            nodes.flat_map(|node| node.references.iter().chain(&node.needs)).map(String::as_str).collect();
        let of_subjects = self.plan.subjects.iter().flat_map(|subject| &subject.roles);
        let is_served = |name: &str| used.contains(name);
        let idle: Vec<&PlannedNode> = self
            .plan
            .nodes
            .values()
            .filter(|node| node.kind.class() == Class::Service && !is_served(&node.name))
            .collect();
        used.extend(of_subjects.map(|(_, node)| node.as_str()));
        let lonely: Vec<&PlannedNode> = self
            .plan
            .nodes
            .values()
            .filter(|node| !self.plan.subjects.is_empty() && makes_something(&node.kind))
            .filter(|node| !used.contains(node.name.as_str()))
            .collect();
        for node in idle {
            let message = format!("nothing uses the service `{}`, so it would never start", node.name);
            self.add(node, "", message, "refer to it from a warmup, aiperf or validate node, or remove it");
        }
        for node in lonely {
            let name = without_instance(&node.name);
            let message = format!("nothing uses what `{}` produces", node.name);
            self.add(node, "", message, &format!("refer to it as ${{nodes.{name}}}, or remove it"));
        }
    }
}

/// Whether a node is there for what others make of it.
fn makes_something(kind: &Kind) -> bool {
    kind.class() == Class::Content && kind.makes_outputs() && !kind.reads_subjects()
}
