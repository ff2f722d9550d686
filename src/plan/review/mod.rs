//! What is wrong with a plan although every part of it is well-formed: nodes
//! that do not fit together, and nodes that nothing uses.

mod inputs;
mod serving;
mod unused;

use super::diagnostic::Slip;
use super::load::Mistakes;
use super::tree::{Position, Tree};
use super::{Plan, PlannedNode, yaml};
use crate::node::Unfit;

/// Looks at what the nodes of a plan are to each other.
pub(super) fn review(plan: &Plan, mistakes: &mut Mistakes) {
    let mut review = Review { plan, mistakes };
    review.settings();
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
    /// What cannot be right whatever the other nodes are.
    fn settings(&mut self) {
        for node in self.plan.nodes.values() {
            for Unfit { setting, message, help } in node.kind.unfit() {
                self.add(node, &setting, message, &help);
            }
        }
        for subject in &self.plan.subjects {
            if !(0.0..=1.0).contains(&subject.error_limit) {
                let message = format!("`error_limit` is {}, and is a share from 0 to 1", subject.error_limit);
                let slip = Slip::new(subject.mode_at, message);
                self.mistakes.add(&self.plan.file, slip.help("write 0.05 for five of a hundred requests"));
            }
        }
    }

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
        let inside = |tree: &'_ Tree, key: &str| match key.parse::<usize>() {
            Ok(number) => tree.items().get(number).cloned(),
            Err(_) => tree.get(key).cloned(),
        };
        Some(setting.split('.').try_fold(settings.clone(), |tree, key| inside(&tree, key))?.at)
    });
    found.unwrap_or(node.at)
}
