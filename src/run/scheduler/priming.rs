//! What primes a server belongs to the measurements on that server: it is done
//! again whenever the server is started again.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Scheduler;
use crate::event::{Event, Outcome};
use crate::node::{Class, InputRecord};
use crate::plan::PlannedNode;
use crate::value::Digest;

impl Scheduler<'_> {
    /// Drops earlier results of what primes the services of a node, because
    /// it is about to start them again. Returns whether there were any.
    pub(super) fn prepare_priming(&mut self, node: &PlannedNode) -> bool {
        let stale = self.walk.stale_priming(&node.name, |priming| self.is_cold(priming));
        for name in &stale {
            let _ = self.reopen(name, format!("{} starts its server again", node.name));
            self.forced.insert(name.clone());
        }
        !stale.is_empty()
    }

    /// Takes back how a node has ended, and has it looked at again. Returns
    /// what it had left.
    pub(super) fn reopen(&mut self, name: &str, reason: String) -> Option<Arc<InputRecord>> {
        let left = self.walk.done.remove(name)?;
        self.results.remove(name);
        self.ended.retain(|ended| ended != name);
        if left.outcome == Outcome::Succeeded && !self.walk.is_service(name) {
            *self.attempts.entry(name.to_owned()).or_insert(1) += 1;
        }
        self.agenda.add(name);
        (self.walk.world.events)(Event::NodeReopened { node: name.to_owned(), reason });
        Some(left)
    }

    /// What primed the services of a node, by its evidence.
    pub(super) fn primed_by(&self, node: &str) -> BTreeMap<String, Digest> {
        let dependencies = self.walk.dag.dependencies(node).map(|(dependency, _)| dependency);
        let priming = dependencies.filter(|name| self.walk.plan.nodes[*name].kind.class() == Class::Priming);
        priming.filter_map(|name| Some((name.to_owned(), self.walk.done.get(name)?.evidence?))).collect()
    }

    /// Whether what primed a node's services primed one that was stopped since.
    fn is_cold(&self, priming: &str) -> bool {
        let is_priming = self.walk.plan.nodes[priming].kind.class() == Class::Priming;
        is_priming
            && self
                .walk
                .used_services(priming)
                .any(|used| self.paused.contains_key(used) && !self.is_up(used))
    }
}
