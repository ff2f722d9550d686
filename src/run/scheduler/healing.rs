//! Heals the store within a run: what was reused and is damaged when another
//! node reads it is made again, and the reader is tried again after it.
//!
//! What a result names is there when the result is reused; whether it is whole
//! shows only when it is read. A result is made again once in a run at most,
//! so that somebody who damages it again and again does not keep a run going.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;

use super::Scheduler;
use super::retrying::Attempt;
use crate::dag::Edge;
use crate::event::Outcome;
use crate::node::{Failure, FailureKind, InputRecord};
use crate::plan::PlannedNode;
use crate::run::Foresight;
use crate::run::key::counted;
use crate::run::record::{environment_gone, gone};
use crate::store::Recorded;

/// What a run has healed so far.
#[derive(Default)]
pub(super) struct Repairs {
    /// Nodes that are made again, with what of them was lost.
    begun: BTreeMap<String, String>,
    /// What nodes left that were looked at again, until they have ended again.
    before: BTreeMap<String, Arc<InputRecord>>,
    /// Nodes that were running when an input of theirs was found damaged: they
    /// may have met the same damage.
    exposed: BTreeSet<String>,
}

impl Repairs {
    /// Why a node was made again, if it was.
    pub fn reason(&self, node: &str) -> Option<String> {
        self.begun.get(node).map(|lost| format!("made again, because {lost} was damaged in the store"))
    }
}

impl Scheduler<'_> {
    /// Has a node that failed tried again, if that is for an input that was
    /// damaged and can be made again; else gives its failure back.
    pub(super) fn heal(&mut self, node: &PlannedNode, attempt: Attempt) -> Option<Attempt> {
        let was_exposed = self.repairs.exposed.remove(&node.name);
        // What a program did wrong by itself is never tried again.
        if attempt.failure.kind != FailureKind::Environment || self.is_ending() {
            return Some(attempt);
        }
        let damaged = self.damaged_inputs(&node.name);
        let why = match damaged.as_slice() {
            [] if was_exposed => "what it read is made again meanwhile".to_owned(),
            [] => return Some(attempt),
            damaged => damaged
                .iter()
                .map(|(input, lost)| {
                    format!("{input} is made again, because {lost} was damaged in the store")
                })
                .collect::<Vec<_>>()
                .join("; "),
        };
        self.try_again(node, &attempt, &format!("{why}; then {} is tried again", node.name));
        self.agenda.add(&node.name);
        for (input, lost) in damaged {
            self.make_again(&input, lost);
        }
        None
    }

    /// Reused nodes whose results a node reads and that have lost something,
    /// with what they have lost.
    fn damaged_inputs(&self, name: &str) -> Vec<(String, String)> {
        let read = self.walk.read_by(name).into_iter();
        let fresh = read.filter(|input| !self.repairs.begun.contains_key(*input));
        fresh.filter_map(|input| Some((input.to_owned(), self.lost_of(input)?))).collect()
    }

    /// What a reused node has lost since it was reused, in words.
    fn lost_of(&self, name: &str) -> Option<String> {
        let record = self.walk.done.get(name).filter(|record| record.outcome == Outcome::Reused)?;
        let store = &self.walk.world.store;
        if self.walk.is_service(name) {
            return None;
        }
        match store.recorded(record.key?).ok()? {
            Recorded::Whole(_) => {
                environment_gone(store, &record.outputs).then(|| "its Python environment".to_owned())
            }
            Recorded::Broken { result, gone: blobs } => Some(gone(&result, &blobs)),
            Recorded::Absent => Some("its result".to_owned()),
        }
    }

    /// Takes back that a node was reused.
    fn make_again(&mut self, name: &str, lost: String) {
        // What was read ahead is older than the damage.
        self.foresight = Foresight::default();
        let exposed = self.running.iter().filter(|running| self.walk.read_by(running).contains(name));
        self.repairs.exposed.extend(exposed.cloned());
        self.take_back(name, format!("{lost} was damaged in the store"));
        self.repairs.begun.insert(name.to_owned(), lost);
        self.forced.insert(name.to_owned());
        self.renew_services(name);
    }

    /// Has a node looked at again, and remembers what it left.
    fn take_back(&mut self, name: &str, reason: String) {
        if let Some(left) = self.reopen(name, reason) {
            self.repairs.before.insert(name.to_owned(), left);
        }
    }

    /// Has the services of a node start for it although they have failed or
    /// are settled.
    pub(super) fn renew_services(&mut self, name: &str) {
        let services: Vec<String> = self.walk.used_services(name).map(str::to_owned).collect();
        for service in services {
            if self.services.get(&service).is_some_and(|slot| slot.has_failed()) {
                let _ = fs::remove_dir_all(self.walk.context(&self.walk.plan.nodes[service.as_str()]).work);
                self.services.insert(service.clone(), Arc::default());
            }
            if self.walk.done.contains_key(&service) {
                self.take_back(&service, format!("{name} needs it again"));
            }
        }
    }

    /// Whether a node reads what is being made again.
    pub(super) fn waits_for_a_repair(&self, name: &str) -> bool {
        let is_open = |node: &&String| !self.walk.done.contains_key(*node);
        let mut open = self.repairs.begun.keys().filter(is_open).peekable();
        open.peek().is_some() && {
            let read = self.walk.read_by(name);
            open.any(|node| read.contains(node.as_str()))
        }
    }

    /// Refuses what was made again if it is not what it was and a server runs
    /// on what it was: nobody may take the one for the other.
    pub(super) fn fits(&self, name: &str, made: &InputRecord) -> Result<(), Failure> {
        let Some(before) = self.repairs.before.get(name) else { return Ok(()) };
        let on_it = self.readers_that_differ(name, before, made);
        let running =
            on_it.iter().find(|reader| self.services.get(**reader).is_some_and(|slot| slot.is_in_use()));
        running.map_or(Ok(()), |server| {
            Err(Failure::environment(format!(
                "it was made again and left other content than before, while {server} runs on what was before; \
                 run the same command again"
            )))
        })
    }

    /// After a node has ended again: whoever waited for it is due, and so is
    /// who ended by what it left before, where that differs.
    pub(super) fn settle_repair(&mut self, name: &str, left: &InputRecord) {
        self.repairs.exposed.remove(name);
        let Some(before) = self.repairs.before.remove(name) else { return };
        self.agenda.add_all();
        if !left.outcome.passed() {
            return;
        }
        let differing = self.readers_that_differ(name, &before, left);
        let mut stale: BTreeSet<String> = differing.iter().map(|reader| (*reader).to_owned()).collect();
        for service in differing.iter().filter(|reader| self.walk.is_service(reader)) {
            stale.extend(self.walk.consumers(service).map(str::to_owned));
        }
        let ended_well =
            |reader: &String| self.walk.done.get(reader).is_some_and(|record| record.outcome.passed());
        for reader in stale.iter().filter(|reader| ended_well(reader)).cloned().collect::<Vec<_>>() {
            self.take_back(&reader, format!("{name} left other content than before"));
        }
    }

    /// Nodes that depend on a node and for which two results of it differ.
    fn readers_that_differ(&self, name: &str, before: &InputRecord, after: &InputRecord) -> Vec<&str> {
        let differs = |reader: &&str| {
            let kind = &self.walk.plan.nodes[*reader].kind;
            let edges = self.walk.dag.dependencies(reader).filter(|(dependency, _)| *dependency == name);
            edges.into_iter().any(|(_, edge)| match edge {
                Edge::Any => before.evidence != after.evidence,
                edge => counted(kind, name, edge, before) != counted(kind, name, edge, after),
            })
        };
        self.walk.dag.dependents(name).filter(differs).collect()
    }
}
