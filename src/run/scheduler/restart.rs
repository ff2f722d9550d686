//! Starts a server again that died while a node used it, where the plan allows
//! that. What primed the server runs again, and the node starts over as a new
//! attempt: nothing that was measured before the death counts for it.

use std::fs;
use std::sync::Arc;

use jiff::Timestamp;

use super::Scheduler;
use super::retrying::{Attempt, note};
use crate::node::Kind;
use crate::plan::PlannedNode;
use crate::run::services::Lost;

impl Scheduler<'_> {
    /// Has a node whose server died tried again on a server that is started
    /// anew; gives its failure back where the plan does not allow that.
    pub(super) fn restart(
        &mut self,
        node: &PlannedNode,
        attempt: Attempt,
        lost: Option<&Lost>,
    ) -> Option<Attempt> {
        let Some(lost) = lost.filter(|_| !self.is_ending()) else { return Some(attempt) };
        let service = &self.walk.plan.nodes[lost.service.as_str()];
        let Kind::Serve(serve) = service.kind.as_ref() else { return Some(attempt) };
        // Another node that used it may have had it started again already.
        if Arc::ptr_eq(&self.services[&lost.service], &lost.slot) {
            if self.restarts.get(&lost.service).copied().unwrap_or_default() >= serve.restart {
                return Some(attempt);
            }
            self.replace(service, &attempt);
        }
        let restarts = self.restarts.get(&lost.service).copied().unwrap_or_default();
        let why = format!(
            "{} is started again, {restarts} of at most {} times; then {} is tried again",
            service.name, serve.restart, node.name
        );
        self.try_again(node, &attempt, &why);
        self.agenda.add(&node.name);
        None
    }

    /// Puts a service that can be started in the place of one that died, and
    /// has it primed again for those that have yet to use it.
    fn replace(&mut self, service: &PlannedNode, attempt: &Attempt) {
        let record = self.failed(service, &attempt.failure);
        self.record(service, &record, Timestamp::now(), attempt.took);
        let context = self.context(service);
        let number = self.attempt(&service.name);
        note(&context.log, number, record.reason.as_deref().unwrap_or_default());
        let _ = fs::remove_dir_all(&context.work);
        self.attempts.insert(service.name.clone(), number + 1);
        *self.restarts.entry(service.name.clone()).or_default() += 1;
        self.services.insert(service.name.clone(), Arc::default());
        for priming in self.walk.priming_of(&service.name) {
            let _ = self.reopen(&priming, format!("{} is started again", service.name));
            self.forced.insert(priming);
        }
    }
}
