//! Which nodes may start beside what runs: measurements alone, and nobody
//! with more than there is.

use std::sync::Arc;

use super::Scheduler;
use crate::node::Failure;
use crate::plan::{CPU, PlannedNode};
use crate::run::resources::Amounts;
use crate::run::{RunError, priority};

impl Scheduler<'_> {
    /// Whether a node may start now; one that may not is looked at again when
    /// something that runs has ended.
    pub(super) fn may_start(&mut self, node: &PlannedNode) -> bool {
        let demands = self.demands(node, |service| !self.is_up(service));
        let total = total(&demands);
        let fits = self.resources.has(&total);
        if fits && self.running.len() < self.options.jobs && !self.is_disturbed_by(node) {
            for (name, demand) in demands {
                self.resources.take(&name, demand);
            }
            return true;
        }
        if !fits {
            self.resources.reserve(&total);
        }
        self.agenda.hold(&node.name);
        false
    }

    /// What this machine can never give a node and its services together, as
    /// the reason it cannot run.
    pub(super) fn lacks(&self, node: &PlannedNode) -> Option<Failure> {
        let lacks = self.resources.lacks(&total(&self.demands(node, |_| true)))?;
        Some(Failure::environment(format!(
            "with the servers it uses {lacks}; correct `resources` in the plan, or run it on another machine"
        )))
    }

    /// What a node takes, and what those of its services take that are asked
    /// for. More processors than there are for all of them means what is left.
    fn demands(&self, node: &PlannedNode, is_asked: impl Fn(&str) -> bool) -> Vec<(String, Amounts)> {
        let mut processors = self.resources.processors();
        let mut demands = Vec::new();
        for name in self.walk.used_services(&node.name).chain([node.name.as_str()]) {
            let mut demand = self.walk.plan.nodes[name].resources.clone();
            if let Some(cpu) = demand.get_mut(CPU) {
                *cpu = (*cpu).min(processors);
                processors -= *cpu;
            }
            if !demand.is_empty() && (name == node.name || is_asked(name)) {
                demands.push((name.to_owned(), demand));
            }
        }
        demands
    }

    /// Whether a service is being started or runs.
    pub(super) fn is_up(&self, service: &str) -> bool {
        self.services.get(service).is_some_and(|slot| slot.is_in_use())
    }

    /// Whether what runs would disturb a measurement, or be one that the node
    /// would disturb.
    fn is_disturbed_by(&self, node: &PlannedNode) -> bool {
        let is_quiet = |name: &str| self.walk.plan.nodes[name].kind.is_quiet();
        if self.running.iter().any(|running| node.kind.is_quiet() || is_quiet(running)) {
            return true;
        }
        let uses_more = self.walk.used_services(&node.name).any(|service| !self.is_up(service));
        self.services_beside(node).any(|service| {
            let measured = || {
                let mut users = self.walk.consumers(service);
                users.any(|user| is_quiet(user) && !self.walk.done.contains_key(user))
            };
            node.kind.is_quiet() || uses_more && measured()
        })
    }

    /// Services that are up and that a node does not use.
    fn services_beside(&self, node: &PlannedNode) -> impl Iterator<Item = &str> {
        let up = self.services.keys().map(String::as_str).filter(|service| self.is_up(service));
        up.filter(|service| self.walk.used_services(&node.name).all(|used| used != *service))
    }

    /// Nothing runs, and what could start waits for services that wait for
    /// other users: those are stopped, and start again when they are needed.
    /// Returns whether there was anything to do.
    pub(super) async fn make_room(&mut self) -> Result<bool, RunError> {
        let Some(first) = self.agenda.first_held() else { return Ok(false) };
        let node = &self.walk.plan.nodes[first];
        let idle: Vec<String> = self.services_beside(node).map(str::to_owned).collect();
        for service in &idle {
            let slot = Arc::clone(&self.services[service]);
            let stopped = slot.stop().await;
            self.resources.give_back(service);
            let failure = stopped.as_ref().and_then(|stopped| stopped.result.clone().err());
            self.paused.extend(stopped.map(|stopped| (service.clone(), stopped)));
            if let Some(failure) = failure {
                // What is left of it would disturb whatever comes next.
                self.settle_failed(node, failure)?;
                break;
            }
        }
        if idle.is_empty() {
            let failure = Failure::failed("it waits for what nobody has; this is a mistake of this program");
            self.settle_failed(node, failure)?;
        }
        self.look_at_held();
        Ok(true)
    }

    /// Something that ran has ended: whoever waited for that is due.
    pub(super) fn look_at_held(&mut self) {
        self.resources.forget_reservations();
        self.agenda.release();
    }

    /// Sorts what is due by the time that is to come after it, by how long the
    /// nodes took before; once, when the first node has to run. Returns
    /// whether it did.
    pub(super) fn prioritise(&mut self) -> Result<bool, RunError> {
        if std::mem::replace(&mut self.prioritised, true) {
            return Ok(false);
        }
        let last = self.state.last_results(&self.walk.plan.name)?;
        let took = last.iter().filter_map(|(node, last)| {
            Some((node.as_str(), std::time::Duration::from_millis(last.took_ms?)))
        });
        self.agenda.reorder(priority::order(self.walk.dag, &took.collect()));
        Ok(true)
    }
}

fn total(demands: &[(String, Amounts)]) -> Amounts {
    let mut total = Amounts::new();
    for (name, amount) in demands.iter().flat_map(|(_, demand)| demand) {
        *total.entry(name.clone()).or_default() += amount;
    }
    total
}
