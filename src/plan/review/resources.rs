//! What nodes take while they run, and how often they are tried again.

use std::collections::HashSet;

use super::{Review, without_instance};
use crate::node::Class;
use crate::plan::diagnostic::{Slip, nearest};
use crate::plan::{CPU, GPU, PlannedNode};

impl Review<'_> {
    /// Tokens that the plan does not have or does not have enough of, and
    /// services that would be tried again by themselves.
    pub(super) fn resources(&mut self) {
        let plan = self.plan;
        for name in [CPU, GPU].iter().filter(|name| plan.resources.contains_key(**name)) {
            let at = self.place(&plan.file, &["resources", name]).unwrap_or_default();
            let slip = Slip::new(at, format!("`{name}` is a resource of the machine and not of a plan"));
            self.mistakes
                .add(&plan.file, slip.help("leave it out; what the machine has is found by looking"));
        }
        let mut told = HashSet::new();
        for node in plan.nodes.values() {
            // Instances of one node have one mistake together.
            if !told.insert((&node.file.path, node.at)) {
                continue;
            }
            for (name, amount) in &node.resources {
                if let Some((message, help)) = self.wrong_amount(name, *amount) {
                    self.add_common(node, &["resources", name], message, &help);
                }
            }
            if node.retry.is_some() && node.kind.class() == Class::Service {
                let message =
                    format!("`{}` is a service, which has no attempts", without_instance(&node.name));
                self.add_common(node, &["retry"], message, "write `retry` for the nodes that use it");
            }
        }
    }

    /// What is wrong with an amount of a resource, and what to do.
    fn wrong_amount(&self, name: &str, amount: u32) -> Option<(String, String)> {
        if name == CPU || name == GPU {
            return None;
        }
        let tokens = &self.plan.resources;
        match tokens.get(name) {
            Some(there) if amount <= *there => None,
            Some(there) => Some((
                format!("it takes {amount} of `{name}`, of which the plan has {there}"),
                format!("take less, or raise `{name}` under the plan's `resources`"),
            )),
            None => {
                let names = tokens.keys().map(String::as_str).chain([CPU, GPU]);
                let meant = nearest(name, names).map(|near| format!("did you mean `{near}`? else "));
                Some((
                    format!("there is no resource `{name}`"),
                    format!(
                        "{}write how many there are under the plan's `resources`",
                        meant.unwrap_or_default()
                    ),
                ))
            }
        }
    }

    /// Adds a mistake about a setting that every node has.
    fn add_common(&mut self, node: &PlannedNode, setting: &[&str], message: String, help: &str) {
        if self.mistakes.is_enough() {
            return;
        }
        let keys = [&["nodes", without_instance(&node.name)], setting].concat();
        let at = self.place(&node.file, &keys).unwrap_or(node.at);
        self.mistakes.add(&node.file, Slip::new(at, message).help(help));
    }
}
