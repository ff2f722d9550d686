//! What the texts of a node refer to: nodes, the target, sweeps.

use std::collections::HashMap;

use super::diagnostic::Slip;
use super::tree::{Position, Tree};
use crate::value::Reference;
use crate::value::reference::{Piece, pieces};

/// A reference to a node, or a name under `needs:`.
#[derive(Debug)]
pub(super) struct Mention {
    /// The inside of `${…}`, or the name under `needs:`.
    pub written: String,
    /// The node's name without the instance.
    pub node: String,
    /// Which of its instances: `category=coding` in brackets behind the name.
    pub pins: Vec<(String, String)>,
    /// The output, where one is named.
    pub output: Option<String>,
    /// Where.
    pub at: Position,
    /// Whether it stands under `needs:`.
    pub is_need: bool,
}

/// Everything that a node's texts refer to.
#[derive(Debug, Default)]
pub(super) struct Mentions {
    pub nodes: Vec<Mention>,
    /// Whether its settings refer to anything.
    pub any: bool,
    /// Whether it refers to the target itself.
    pub target: bool,
    /// Names behind `sweep.`.
    pub sweeps: Vec<String>,
    /// The first mention of each node by what is written, where there are many.
    numbers: HashMap<String, usize>,
}

/// Mentions that are compared with each other sooner than hashed.
const FEW: usize = 12;

impl Mention {
    /// Reads a node's name with the instance it means.
    pub fn of(written: &str, reference: Reference, at: Position, is_need: bool) -> Self {
        let written = written.to_owned();
        let Reference { node, output } = reference;
        let Some((name, pins)) = node.strip_suffix(']').and_then(|rest| rest.split_once('[')) else {
            return Self { written, node, pins: Vec::new(), output, at, is_need };
        };
        let pins = pins.split(',').map(|pin| pin.split_once('=').unwrap_or((pin, "")));
        let pins = pins.map(|(name, label)| (name.trim().to_owned(), label.trim().to_owned())).collect();
        Self { node: name.to_owned(), written, pins, output, at, is_need }
    }

    /// The label that is meant under a name.
    pub fn pin(&self, name: &str) -> Option<&str> {
        self.pins.iter().find(|(pinned, _)| pinned == name).map(|(_, label)| label.as_str())
    }
}

/// Finds what a node refers to.
pub(super) fn mentions(node: &Tree, slips: &mut Vec<Slip>) -> Mentions {
    let mut mentions = Mentions::default();
    for entry in node.entries().iter().filter(|entry| entry.key != "needs" && entry.key != "sweep") {
        entry.value.visit_texts(&mut |text, at| {
            if text.contains("${") {
                mentions.read(text, at, slips);
            }
        });
    }
    for need in node.get("needs").map(Tree::items).unwrap_or_default() {
        if let Some(name) = need.text() {
            let reference = Reference { node: name.to_owned(), output: None };
            mentions.nodes.push(Mention::of(name, reference, need.at, true));
        }
    }
    if mentions.nodes.len() > FEW {
        for (number, mention) in mentions.nodes.iter().enumerate() {
            mentions.numbers.entry(mention.written.clone()).or_insert(number);
        }
    }
    mentions
}

impl Mentions {
    /// The first mention that is written like this.
    pub fn number(&self, written: &str) -> Option<usize> {
        if self.nodes.len() > FEW {
            return self.numbers.get(written).copied();
        }
        self.nodes.iter().position(|mention| mention.written == written)
    }

    fn read(&mut self, text: &str, at: Position, slips: &mut Vec<Slip>) {
        for piece in pieces(text).unwrap_or_default() {
            let Piece::Reference(inner) = piece else { continue };
            self.any = true;
            self.target |= inner.starts_with("target.");
            self.sweeps.extend(inner.strip_prefix("sweep.").map(str::to_owned));
            match Reference::parse(inner) {
                Some(reference) => self.nodes.push(Mention::of(inner, reference, at, false)),
                None if inner.starts_with("nodes.") => slips.push(
                    Slip::new(at, format!("`${{{inner}}}` names no node"))
                        .help("write ${nodes.NAME} or ${nodes.NAME.OUTPUT}"),
                ),
                None => {}
            }
        }
    }
}
