//! Services in a run: handed to the nodes that use them, stopped after the
//! last one.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::{Scheduler, make_dir};
use crate::event::Outcome;
use crate::node::InputRecord;
use crate::plan::PlannedNode;
use crate::run::RunError;
use crate::run::execution::NeededService;
use crate::run::record::blank;

impl Scheduler<'_> {
    /// The services that a node refers to, with what it takes to start them.
    pub(super) fn services_of(&self, node: &PlannedNode) -> Result<Vec<NeededService>, RunError> {
        let mut needed = Vec::new();
        for name in self.walk.used_services(&node.name) {
            let service = &self.walk.plan.nodes[name];
            let context = self.context(service);
            make_dir(&context.work)?;
            needed.push(NeededService {
                name: name.to_owned(),
                kind: Arc::clone(&service.kind),
                slot: Arc::clone(&self.services[name]),
                context,
            });
        }
        Ok(needed)
    }

    /// Stops a service whose users have all ended, and settles it.
    pub(super) async fn stop_if_idle(&mut self, name: &str) -> Result<(), RunError> {
        if !self.is_available(name)
            || !self.walk.consumers(name).all(|user| self.walk.done.contains_key(user))
        {
            return Ok(());
        }
        let slot = Arc::clone(&self.services[name]);
        let node = &self.walk.plan.nodes[name];
        let started = Timestamp::now();
        let stopped = slot.stop().await.or_else(|| self.paused.remove(name));
        let ran = stopped.is_some();
        let its_own = stopped.as_ref().and_then(|stopped| stopped.evidence);
        let evidence = its_own.or_else(|| self.walk.proof_of(name));
        let outputs = self.walk.armed(name).map(|record| record.outputs).unwrap_or_default();
        let (outcome, reason, failure) = match stopped.map(|stopped| stopped.result) {
            Some(Ok(how)) => (Outcome::Succeeded, Some(how), None),
            Some(Err(failure)) => {
                (Outcome::Failed, Some(self.walk.world.site.mask(&failure.message)), Some(failure))
            }
            None if evidence.is_some() => {
                (Outcome::Reused, Some("not started: every node that uses it was reused".to_owned()), None)
            }
            None => (Outcome::Skipped, Some("not started: no node that uses it ran".to_owned()), None),
        };
        if ran && failure.is_none() {
            // A server that ended well leaves only its log.
            let _ = fs::remove_dir_all(self.walk.context(node).work);
        }
        self.resources.give_back(name);
        self.look_at_held();
        let key = self.walk.armed(name).and_then(|armed| armed.key);
        let record = InputRecord { reason, outputs, evidence, key, ..blank(node, outcome) };
        self.end(node, record, failure, started, Duration::ZERO)
    }
}
