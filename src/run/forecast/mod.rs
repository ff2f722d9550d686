//! What a run would do, without doing any of it: walks the graph in order
//! with the store as it is.
//!
//! It decides as the scheduler does, by the same keys, and must not write.

mod document;
mod explain;
mod reason;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

pub use document::{Action, ExplainedInput, Explanation, Forecast, ForecastNode, LastKey, Measured, Totals};
pub use explain::explain;

use jiff::Timestamp;

use super::key::Key;
use super::record::{blank, gone, reusable};
use super::walk::Walk;
use super::{RunError, Selection, unmet};
use crate::dag::{Dag, Edge};
use crate::event::Outcome;
use crate::node::{Class, Context, InputRecord, World};
use crate::plan::{Plan, PlannedNode};
use crate::state::LastResult;
use crate::store::{Recorded, StoredResult};
use crate::value::Digest;

/// What a forecast is asked for.
pub struct Question<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// Its graph.
    pub dag: &'a Dag,
    /// The store and the machine; its events and signals are not used.
    pub world: Arc<World>,
    /// The project's state directory, which need not be there.
    pub state_dir: &'a Path,
    /// Values of the site file, for requirements.
    pub site: &'a BTreeMap<String, String>,
    /// Whether measurements would be made again although results are there.
    pub remeasure: bool,
    /// The part of the plan that would be run.
    pub selection: Selection,
    /// The time to which results age.
    pub now: Timestamp,
    /// The last result of each node, by the state.
    pub last: BTreeMap<String, LastResult>,
}

/// Says what an `apply` would do now.
pub fn forecast(question: &Question<'_>) -> Result<Forecast, RunError> {
    let mut forecaster = Forecaster::new(question)?;
    forecaster.settle_all();
    let order = question.dag.order().iter();
    let nodes: Vec<ForecastNode> = order.filter_map(|name| forecaster.nodes.remove(name)).collect();
    Ok(Forecast { schema_version: 1, plan: question.plan.name.clone(), totals: totals(&nodes), nodes })
}

/// A forecast in progress.
struct Forecaster<'a> {
    walk: Walk<'a>,
    question: &'a Question<'a>,
    /// What is decided so far.
    nodes: BTreeMap<String, ForecastNode>,
    keys: BTreeMap<String, Key>,
    /// Nodes that would run and are certain to leave other content than before.
    measured: BTreeSet<String>,
}

impl<'a> Forecaster<'a> {
    fn new(question: &'a Question<'a>) -> Result<Self, RunError> {
        let Question { plan, dag, world, state_dir, .. } = question;
        let unmet = unmet(plan, question.site, world);
        let walk = Walk::new(plan, dag, Arc::clone(world), &question.selection, state_dir, unmet)?;
        let (nodes, keys, measured) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Ok(Self { walk, question, nodes, keys, measured })
    }

    fn settle_all(&mut self) {
        let question = self.question;
        for name in question.dag.order() {
            self.settle(&question.plan.nodes[name.as_str()]);
        }
        for name in question.dag.order().iter().rev() {
            self.settle_service(name);
        }
    }

    fn settle(&mut self, node: &PlannedNode) {
        if let Some((outcome, reason)) = self.walk.verdict(node) {
            self.leave_out(node, outcome, reason);
            return;
        }
        let waits = self.waits(&node.name);
        if !waits.is_empty() {
            self.wait(node, waits);
            return;
        }
        let context = self.context(node);
        match self.walk.key(node, &context) {
            Err(failure) => self.fail(node, failure.message),
            Ok(key) => {
                self.keys.insert(node.name.clone(), key.clone());
                if !self.walk.is_service(&node.name) {
                    self.look_up(node, &key);
                }
            }
        }
    }

    /// What the node would be given. How a server was primed counts by its key,
    /// which is known before it is primed.
    fn context(&self, node: &PlannedNode) -> Context {
        let mut context = self.walk.context(node);
        for (dependency, edge) in self.walk.dag.dependencies(&node.name) {
            let priming = &self.walk.plan.nodes[dependency];
            if edge != Edge::Order || priming.kind.class() != Class::Priming {
                continue;
            }
            if let Some(key) = self.keys.get(dependency) {
                let record = || InputRecord { key: Some(key.digest), ..blank(priming, Outcome::Succeeded) };
                context.inputs.entry(dependency.to_owned()).or_insert_with(|| Arc::new(record()));
            }
        }
        context
    }

    /// The nodes that would run first and without which the key is not known.
    fn waits(&self, name: &str) -> Vec<String> {
        let mut waits: Vec<String> = Vec::new();
        for (dependency, edge) in self.walk.dag.dependencies(name) {
            let class = self.walk.plan.nodes[dependency].kind.class();
            let known = match (edge, class) {
                _ if self.walk.done.contains_key(dependency) => true,
                (Edge::Data, Class::Service) | (Edge::Order, Class::Priming) => {
                    self.keys.contains_key(dependency)
                }
                // A service that is reused left the proof its users recorded.
                (Edge::Any, Class::Service) => self.keys.contains_key(dependency),
                (Edge::Order, _) => true,
                (Edge::Data | Edge::Any, _) => false,
            };
            if known {
                continue;
            }
            // What counts by its key counts once its own inputs are known.
            let by_key = class == Class::Service || edge == Edge::Order;
            match self.nodes.get(dependency).filter(|_| by_key) {
                Some(keyed) => waits.extend(keyed.waits_for.iter().cloned()),
                None => waits.push(dependency.to_owned()),
            }
        }
        waits.sort();
        waits.dedup();
        waits
    }

    /// Takes the stored result, or says why the node runs.
    fn look_up(&mut self, node: &PlannedNode, key: &Key) {
        let store = &self.walk.world.store;
        if self.must_measure(node) {
            self.run(node, Some("--remeasure measures again".to_owned()), None);
            return;
        }
        match store.recorded(key.digest) {
            Err(error) => self.fail(node, error.to_string()),
            Ok(Recorded::Absent) => self.run(node, None, None),
            Ok(Recorded::Broken { result, gone: blobs }) => {
                let what = gone(&result, &blobs);
                self.run(node, Some(format!("its result is in the store, but {what} is gone")), Some(result));
            }
            Ok(Recorded::Whole(result)) => {
                match reusable(store, node, key, result.clone(), self.question.now) {
                    Ok(record) => self.reuse(node, record, &result),
                    Err(why) => {
                        self.run(node, Some(format!("its result is in the store, but {why}")), Some(result));
                    }
                }
            }
        }
    }

    fn must_measure(&self, node: &PlannedNode) -> bool {
        self.question.remeasure && node.kind.class().is_measured() && self.walk.may_run(node)
    }

    fn reuse(&mut self, node: &PlannedNode, record: InputRecord, stored: &StoredResult) {
        for (name, evidence) in &stored.primed_by {
            self.stand_in(name, *evidence);
        }
        self.walk.recall_priming(&stored.primed_by);
        self.walk.done.insert(node.name.clone(), Arc::new(record));
        let made_at = Some(stored.made_at.clone());
        let decided =
            ForecastNode { made_at, last_took_ms: Some(stored.took_ms), ..self.node(node, Action::Reuse) };
        self.nodes.insert(node.name.clone(), decided);
    }

    /// What primes a server for a measurement that is reused counts by what it
    /// left then, even if it would run now for itself.
    fn stand_in(&mut self, name: &str, evidence: Digest) {
        let Some(key) = self.keys.get(name).filter(|_| !self.walk.done.contains_key(name)) else { return };
        let node = &self.walk.plan.nodes[name];
        let record = InputRecord {
            evidence: Some(evidence),
            key: Some(key.digest),
            ..blank(node, Outcome::Succeeded)
        };
        self.walk.done.insert(name.to_owned(), Arc::new(record));
    }

    /// The node would run. Where no reason is given, it is what differs from
    /// its last result.
    fn run(&mut self, node: &PlannedNode, reason: Option<String>, stored: Option<StoredResult>) {
        if !self.walk.may_run(node) {
            let reason = self.walk.selection.why_left_out(&node.name);
            self.leave_out(node, Outcome::Skipped, reason);
            return;
        }
        let mut decided = self.node(node, Action::Run);
        decided.last_took_ms = self.took_before(&node.name).or(stored.map(|stored| stored.took_ms));
        let key = self.keys.get(&node.name);
        let (why, changes) = reason::since_the_last(self.question, node, key);
        decided.changes = if reason.is_some() { Vec::new() } else { changes };
        decided.reason = Some(reason.unwrap_or(why));
        if node.kind.class().is_measured() {
            self.measured.insert(node.name.clone());
        }
        self.nodes.insert(node.name.clone(), decided);
        self.prime_again(&node.name);
    }

    /// The content of an input is not known before that input has run.
    fn wait(&mut self, node: &PlannedNode, waits: Vec<String>) {
        if self.walk.is_service(&node.name) {
            let decided = ForecastNode { waits_for: waits, ..self.node(node, Action::NotNeeded) };
            self.nodes.insert(node.name.clone(), decided);
            return;
        }
        if !self.walk.may_run(node) {
            self.leave_out(node, Outcome::Skipped, self.walk.selection.why_left_out(&node.name));
            return;
        }
        let measured = waits.iter().any(|input| self.measured.contains(input));
        let may_be_reused = !measured && !self.must_measure(node);
        if !may_be_reused {
            self.measured.insert(node.name.clone());
        }
        let (first, same) = reason::waiting(&waits);
        let reason = if may_be_reused { format!("{first}; it may still be reused if {same}") } else { first };
        let decided = ForecastNode {
            reason: Some(reason),
            waits_for: waits,
            may_be_reused,
            last_took_ms: self.took_before(&node.name),
            ..self.node(node, Action::Run)
        };
        self.nodes.insert(node.name.clone(), decided);
        self.prime_again(&node.name);
    }

    /// What primed the services of a node that runs runs again.
    fn prime_again(&mut self, user: &str) {
        for name in self.walk.stale_priming(user, |_| false) {
            self.walk.done.remove(&name);
            if !self.nodes.get(user).is_some_and(|user| user.may_be_reused) {
                self.measured.insert(name.clone());
            }
            if let Some(primed) = self.nodes.get_mut(&name) {
                primed.action = Action::Run;
                primed.made_at = None;
                primed.reason = Some(format!("{user} would run, and its server has to be warmed up for it"));
            }
        }
    }

    fn leave_out(&mut self, node: &PlannedNode, outcome: Outcome, reason: String) {
        let action = if outcome == Outcome::NotRun { Action::NotRun } else { Action::Blocked };
        let unmet = node.target.as_ref().and_then(|target| self.walk.unmet.get(target));
        let shown = unmet.unwrap_or(&reason).clone();
        let decided = ForecastNode { reason: Some(shown), ..self.node(node, action) };
        self.nodes.insert(node.name.clone(), decided);
        let record = InputRecord { reason: Some(reason), ..blank(node, outcome) };
        self.walk.done.insert(node.name.clone(), Arc::new(record));
    }

    fn fail(&mut self, node: &PlannedNode, message: String) {
        let decided = ForecastNode { reason: Some(message.clone()), ..self.node(node, Action::Fail) };
        self.nodes.insert(node.name.clone(), decided);
        let record = InputRecord { reason: Some(message), ..blank(node, Outcome::Failed) };
        self.walk.done.insert(node.name.clone(), Arc::new(record));
    }

    /// A service starts if a node that uses it would run. Its users come after
    /// it in the order, so they are decided.
    fn settle_service(&mut self, name: &str) {
        if !self.walk.is_service(name) || self.walk.done.contains_key(name) {
            return;
        }
        let works = |user: &&str| {
            self.nodes.get(*user).is_some_and(|node| matches!(node.action, Action::Run | Action::Start))
        };
        let mut users: Vec<&str> = self.walk.consumers(name).filter(works).collect();
        users.sort_unstable();
        let decided = match users.as_slice() {
            [] => ForecastNode {
                reason: Some("no node that uses it would run".to_owned()),
                ..self.node(&self.walk.plan.nodes[name], Action::NotNeeded)
            },
            users => ForecastNode {
                reason: Some(format!("for {}", users.join(", "))),
                ..self.node(&self.walk.plan.nodes[name], Action::Start)
            },
        };
        let waits_for = self.nodes.remove(name).map(|node| node.waits_for).unwrap_or_default();
        self.nodes.insert(name.to_owned(), ForecastNode { waits_for, ..decided });
    }

    fn took_before(&self, name: &str) -> Option<u64> {
        let last = self.question.last.get(name)?;
        let stored = || {
            let key = last.key.as_ref()?.parse().ok()?;
            match self.walk.world.store.recorded(key).ok()? {
                Recorded::Whole(result) | Recorded::Broken { result, .. } => Some(result.took_ms),
                Recorded::Absent => None,
            }
        };
        last.took_ms.or_else(stored)
    }

    /// What is said of a node whatever becomes of it.
    fn node(&self, node: &PlannedNode, action: Action) -> ForecastNode {
        let target = self.walk.plan.targets.iter().find(|target| Some(&target.name) == node.target.as_ref());
        let requires = target.into_iter().flat_map(|target| &target.requires);
        ForecastNode {
            node: node.name.clone(),
            kind: node.kind.name().to_owned(),
            target: node.target.clone(),
            action,
            reason: None,
            changes: Vec::new(),
            waits_for: Vec::new(),
            may_be_reused: false,
            quiet: node.kind.is_quiet(),
            timeout_s: node.timeout.map(|timeout| timeout.as_std().as_secs_f64()),
            requires: requires.map(ToString::to_string).collect(),
            services: self.walk.used_services(&node.name).map(str::to_owned).collect(),
            key: self.keys.get(&node.name).map(|key| key.digest),
            made_at: None,
            last_took_ms: None,
        }
    }
}

fn totals(nodes: &[ForecastNode]) -> Totals {
    let count = |action: Action| nodes.iter().filter(|node| node.action == action).count();
    let running = || nodes.iter().filter(|node| node.action == Action::Run);
    Totals {
        run: count(Action::Run),
        reuse: count(Action::Reuse),
        start: count(Action::Start),
        not_needed: count(Action::NotNeeded),
        not_run: count(Action::NotRun),
        blocked: count(Action::Blocked),
        fail: count(Action::Fail),
        known_ms: running().filter_map(|node| node.last_took_ms).sum(),
        without_duration: running().filter(|node| node.last_took_ms.is_none()).count(),
    }
}
