//! What is wrong with a plan although every part of it is well-formed: nodes
//! that do not fit together, and nodes that nothing uses.

mod inputs;
mod serving;
mod unused;

use super::diagnostic::Slip;
use super::load::Mistakes;
use super::tree::Position;
use super::{Plan, PlannedNode, yaml};

/// Looks at what the nodes of a plan are to each other.
pub(super) fn review(plan: &Plan, mistakes: &mut Mistakes) {
    let mut review = Review { plan, mistakes };
    review.inputs();
    review.unused();
    // Nodes of the wrong kind make no sense together.
    if review.mistakes.is_empty() {
        review.serving();
    }
}

struct Review<'a> {
    plan: &'a Plan,
    mistakes: &'a mut Mistakes,
}

impl Review<'_> {
    /// Adds a mistake about a setting of a node.
    fn add(&mut self, node: &PlannedNode, setting: &str, message: String, help: &str) {
        let slip = Slip::new(place(node, setting), message).help(help);
        self.mistakes.add(&node.file, slip);
    }
}

/// Where a setting of a node stands, or else the node; found in the text
/// again, because only mistakes need it.
fn place(node: &PlannedNode, setting: &str) -> Position {
    let name = node.name.split('[').next().unwrap_or_default();
    let tree = yaml::parse(&node.file.text, &mut Vec::new());
    let found = tree.as_ref().and_then(|tree| {
        let settings = tree.get("nodes")?.get(name)?.get(node.kind.name())?;
        Some(settings.get(setting)?.at)
    });
    found.unwrap_or(node.at)
}
