//! The references that are resolved for each instance: to nodes, to the
//! target, to sweeps.

use std::cell::Cell;
use std::collections::BTreeMap;

use super::diagnostic::Slip;
use super::lattice::{Lattice, Steps};
use super::mention::Mentions;
use super::scope::unknown;
use super::tree::{Entry, Origin, Position, Tree, Value};
use crate::value::Reference;
use crate::value::reference::{Piece, escaped, pieces};

/// Where an instance stands.
pub(super) struct Late<'a> {
    pub lattice: &'a Lattice<'a>,
    /// Its target, by number.
    pub target: Option<usize>,
    /// Facts of every target.
    pub facts: &'a [BTreeMap<String, String>],
    /// The steps it takes.
    pub steps: &'a Steps,
    /// Its node's mentions of nodes.
    pub mentions: &'a Mentions,
    /// The instances that these mean; none where there is none.
    pub referred: &'a [Option<String>],
    /// How many bytes references may still stand for.
    pub room: &'a Cell<usize>,
}

impl Late<'_> {
    /// Whether a node refers to a sweep or a target that only the rest of the
    /// plan knows.
    pub fn is_incomplete(&self, mentions: &Mentions) -> bool {
        mentions.target && self.target.is_none()
            || mentions.sweeps.iter().any(|name| self.lattice.swept_value(name, self.steps).is_none())
    }

    /// An entry with every reference to the target and to sweeps replaced,
    /// and with instances in the place of node names.
    pub fn entry(&self, entry: &Entry, slips: &mut Vec<Slip>) -> Entry {
        Entry { key: entry.key.clone(), at: entry.at, value: self.tree(&entry.value, slips) }
    }

    fn tree(&self, tree: &Tree, slips: &mut Vec<Slip>) -> Tree {
        let value = match &tree.value {
            Value::Text(text) if text.contains("${") => return self.text(text, tree, slips),
            Value::List(items) => Value::List(items.iter().map(|item| self.tree(item, slips)).collect()),
            Value::Map(entries) => Value::Map(entries.iter().map(|entry| self.entry(entry, slips)).collect()),
            other => other.clone(),
        };
        Tree { value, ..*tree }
    }

    fn text(&self, text: &str, tree: &Tree, slips: &mut Vec<Slip>) -> Tree {
        let parts = pieces(text).unwrap_or_default();
        if let [Piece::Reference(inner)] = parts.as_slice() {
            return match self.whole(inner, tree.at, slips) {
                Some(value) if self.is_sound(inner) => Tree::resolved(value, tree.at),
                _ => Tree::unknown(tree.at),
            };
        }
        let mut resolved = String::with_capacity(text.len());
        for part in parts {
            match part {
                Piece::Literal(literal) => resolved.push_str(&escaped(&literal)),
                Piece::Reference(inner) => {
                    let value = self.whole(inner, tree.at, slips);
                    resolved.push_str(&value.and_then(|value| value.as_text()).unwrap_or_default());
                }
            }
        }
        let origin = if tree.origin == Origin::Unknown { Origin::Unknown } else { Origin::Resolved };
        Tree { value: Value::Text(resolved), at: tree.at, origin }
    }

    /// Whether the sweep that a reference means is one without mistakes.
    fn is_sound(&self, inner: &str) -> bool {
        let swept = inner.strip_prefix("sweep.").and_then(|name| self.lattice.swept_value(name, self.steps));
        swept.is_none_or(|value| value.origin != Origin::Unknown)
    }

    /// What a reference stands for; nothing where that is a mistake, which
    /// for nodes is known already.
    fn whole(&self, inner: &str, at: Position, slips: &mut Vec<Slip>) -> Option<Value> {
        if self.room.get() == 0 {
            return None;
        }
        let value = self.meaning(inner, at, slips)?;
        self.room.set(self.room.get().saturating_sub(value.text().map_or(0, str::len)));
        Some(value)
    }

    fn meaning(&self, inner: &str, at: Position, slips: &mut Vec<Slip>) -> Option<Value> {
        match inner.split_once('.')? {
            ("nodes", _) => {
                let number = self.mentions.number(inner)?;
                let node = self.referred[number].clone()?;
                let output = self.mentions.nodes[number].output.clone();
                Some(Value::Text(Reference { node, output }.to_string()))
            }
            ("target", name) => self.target_fact(name, at, slips),
            ("sweep", name) => self.swept(name, at, slips),
            _ => None,
        }
    }

    fn target_fact(&self, name: &str, at: Position, slips: &mut Vec<Slip>) -> Option<Value> {
        let Some(facts) = self.target.map(|target| &self.facts[target]) else {
            let slip = Slip::new(at, "the plan has no targets, so there is no `${target.…}`");
            slips.push(slip.help("list target files under `targets:`, or use a parameter"));
            return None;
        };
        let fact = facts.get(name);
        if fact.is_none() {
            let known = facts.keys().map(String::as_str);
            let (message, help) =
                unknown("fact of the target", name, known, "add it to the target's `about:`");
            slips.push(Slip::new(at, message).help(help));
        }
        fact.map(|fact| Value::Text(escaped(fact).into_owned()))
    }

    fn swept(&self, name: &str, at: Position, slips: &mut Vec<Slip>) -> Option<Value> {
        let value = self.lattice.swept_value(name, self.steps);
        if value.is_none() {
            let known = self.lattice.axes.iter().flat_map(|axis| axis.names.iter().map(String::as_str));
            let remedy = "add it under `sweep:` of the plan or of this node";
            let (message, help) = unknown("sweep", name, known, remedy);
            slips.push(Slip::new(at, message).help(help));
        }
        value.map(|value| value.value.clone())
    }
}
