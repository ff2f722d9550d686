//! Whether what a setting or a subject refers to is of the kind it needs.

use super::super::diagnostic::Slip;
use super::{Review, without_instance};
use crate::node::Wanted;

/// The kinds of node that each role of a subject needs.
const ROLES: [(&str, &str); 10] = [
    ("host", "probe_host"),
    ("client", "python_env"),
    ("corpus", "pin_corpus"),
    ("bundle", "build_bundle"),
    ("validation", "validate"),
    ("server", "serve"),
    ("warmup", "warmup"),
    ("load", "aiperf"),
    ("correlation", "correlate"),
    ("audit", "audit_speculation"),
];

impl Review<'_> {
    pub fn inputs(&mut self) {
        for node in self.plan.nodes.values() {
            if self.mistakes.is_enough() {
                return;
            }
            for Wanted { setting, input, kind } in node.kind.wanted() {
                let Some(found) = self.plan.nodes.get(&input.0.node).map(|node| node.kind.name()) else {
                    continue;
                };
                if found != kind {
                    let message = format!(
                        "`{setting}` needs {} node, and `{}` is {} node",
                        a(kind),
                        input.0.node,
                        a(found)
                    );
                    self.add(node, setting, message, &self.candidates(kind));
                }
            }
        }
        for subject in &self.plan.subjects {
            if self.mistakes.is_enough() {
                return;
            }
            for ((role, name), at) in subject.roles.iter().zip(&subject.places) {
                let Some(found) = self.plan.nodes.get(name).map(|node| node.kind.name()) else { continue };
                let Some((_, kind)) = ROLES.iter().find(|(known, _)| known == role) else { continue };
                if found != *kind {
                    let message =
                        format!("`{role}` needs {} node, and `{name}` is {} node", a(kind), a(found));
                    let slip = Slip::new(*at, message).help(self.candidates(kind));
                    self.mistakes.add(&self.plan.file, slip);
                }
            }
        }
    }

    /// The nodes of a kind, as a help line.
    fn candidates(&self, kind: &str) -> String {
        let of_kind = self.plan.nodes.values().filter(|node| node.kind.name() == kind);
        let mut names: Vec<String> = Vec::new();
        for node in of_kind {
            let name = format!("${{nodes.{}}}", without_instance(&node.name));
            if names.last() != Some(&name) {
                names.push(name);
            }
            if names.len() == 6 {
                break;
            }
        }
        if names.is_empty() {
            format!("add {} node to the plan", a(kind))
        } else {
            format!("{} nodes here: {}", kind, names.join(", "))
        }
    }
}

fn a(kind: &str) -> String {
    let article = if kind.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    format!("{article} {kind}")
}
