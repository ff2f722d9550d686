//! What is wrong with a plan although every part of it is well-formed: nodes
//! that do not fit together, and nodes that nothing uses.

mod inputs;
mod quiet;
mod resources;
mod serving;
mod unused;

use std::collections::{HashMap, HashSet};

use super::diagnostic::{Slip, SourceFile};
use super::load::Mistakes;
use super::tree::{Position, Tree, Value};
use super::{Plan, PlannedNode, yaml};

/// Looks at what the nodes of a plan are to each other.
pub(super) fn review(plan: &Plan, mistakes: &mut Mistakes) {
    let mut review = Review { plan, mistakes, texts: HashMap::new() };
    review.settings();
    review.resources();
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
    /// The files in which places were looked for, by their addresses.
    texts: HashMap<*const SourceFile, Option<Tree>>,
}

impl Review<'_> {
    /// What cannot be right whatever the other nodes are.
    fn settings(&mut self) {
        let mut known = HashSet::new();
        for node in self.plan.nodes.values() {
            if node.max_age.is_some() && !node.kind.class().is_measured() {
                let name = without_instance(&node.name);
                let at = self.place(&node.file, &["nodes", name, "max_age"]).unwrap_or(node.at);
                let slip = Slip::new(at, format!("`{name}` measures nothing, so its result does not age"));
                let help = "remove `max_age`; it is reused as long as its inputs are the same";
                self.mistakes.add(&node.file, slip.help(help));
            }
            self.quiet(node);
            for unfit in node.kind.unfit() {
                // Instances of one node have one mistake together.
                if known.insert((&node.file.path, node.at, unfit.clone())) {
                    self.add(node, &unfit.setting, unfit.message, &unfit.help);
                }
            }
        }
        for subject in &self.plan.subjects {
            if !(0.0..=1.0).contains(&subject.error_limit) {
                let message = format!("`error_limit` is {}, and is a share from 0 to 1", subject.error_limit);
                let written = subject.name.rsplit('/').next().unwrap_or_default();
                let keys = ["subjects", without_instance(written), "error_limit"];
                let at = self.place(&self.plan.file, &keys).unwrap_or(subject.mode_at);
                let slip = Slip::new(at, message);
                self.mistakes.add(&self.plan.file, slip.help("write 0.05 for five of a hundred requests"));
            }
        }
    }

    /// Adds a mistake about a setting of a node.
    fn add(&mut self, node: &PlannedNode, setting: &str, message: String, help: &str) {
        if self.mistakes.is_enough() {
            return;
        }
        let mut keys = vec!["nodes", without_instance(&node.name), node.kind.name()];
        keys.extend(setting.split('.'));
        let at = self.place(&node.file, &keys).unwrap_or(node.at);
        self.mistakes.add(&node.file, Slip::new(at, message).help(help));
    }

    /// Where the value under some keys and numbers stands; found in the text
    /// again, because only mistakes need it.
    fn place(&mut self, file: &SourceFile, keys: &[&str]) -> Option<Position> {
        let read = || yaml::parse(&file.text, &mut Vec::new());
        let mut found = self.texts.entry(std::ptr::from_ref(file)).or_insert_with(read).as_ref()?;
        for (number, key) in keys.iter().enumerate() {
            found = match &found.value {
                Value::List(items) => items.get(key.parse::<usize>().ok()?)?,
                _ => match found.get(key) {
                    Some(value) => value,
                    // A key such as `rows.txt` has dots of its own.
                    None => return found.get(&keys[number..].join(".")).map(|value| value.at),
                },
            };
        }
        Some(found.at)
    }
}

/// A name without the instance in brackets behind it.
fn without_instance(name: &str) -> &str {
    name.split('[').next().unwrap_or_default()
}
