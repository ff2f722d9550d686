//! Walks the graph: a node starts when its inputs are there, a measurement
//! when nothing else runs, a service when somebody needs it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::task::JoinSet;

use super::execution::{Finished, NeededService, execute};
use super::key::Key;
use super::record::{Made, blank, keep, reusable, row};
use super::services::{Slot, Slots};
use super::walk::Walk;
use super::{NodeResult, Options, RunError, standing};
use crate::event::{Event, Outcome};
use crate::node::{Class, Context, Failure, FailureKind, InputRecord, SubjectInputs};
use crate::plan::PlannedNode;
use crate::state::{NodeRow, State};
use crate::value::Digest;

/// A run in progress.
pub(super) struct Scheduler<'a> {
    walk: Walk<'a>,
    options: &'a Options,
    state: &'a State,
    services: Slots,
    results: BTreeMap<String, NodeResult>,
    /// Nodes in the order they ended.
    ended: Vec<String>,
    /// The first node that failed by itself.
    failed: Option<String>,
    running: BTreeSet<String>,
    /// Nodes that must run although an earlier result is there.
    forced: BTreeSet<String>,
    attempts: BTreeMap<String, u32>,
}

impl<'a> Scheduler<'a> {
    pub fn new(walk: Walk<'a>, options: &'a Options, state: &'a State) -> Self {
        let services = walk.plan.nodes.keys().filter(|name| walk.is_service(name));
        let services = services.map(|name| (name.clone(), Arc::new(Slot::default()))).collect();
        Self {
            walk,
            options,
            state,
            services,
            results: BTreeMap::new(),
            ended: Vec::new(),
            failed: None,
            running: BTreeSet::new(),
            forced: BTreeSet::new(),
            attempts: BTreeMap::new(),
        }
    }

    /// Runs everything that can run; returns the nodes in the order they
    /// ended. No service outlives it, however it ends.
    pub async fn run(&mut self) -> Result<Vec<NodeResult>, RunError> {
        let walked = self.settle_all().await;
        for slot in self.services.values() {
            // Those that still run are left over by an error, which is returned.
            let _ = slot.stop().await;
        }
        walked?;
        Ok(self.ended.iter().filter_map(|name| self.results.get(name).cloned()).collect())
    }

    /// The plan's subjects with what their nodes left.
    pub fn subjects(&self) -> Vec<SubjectInputs> {
        self.walk.subjects()
    }

    async fn settle_all(&mut self) -> Result<(), RunError> {
        let mut tasks: JoinSet<Finished> = JoinSet::new();
        loop {
            while self.advance(&mut tasks).await? {}
            match tasks.join_next().await {
                None => return Ok(()),
                Some(Ok(finished)) => self.finish(finished)?,
                // A task of ours panicked: a bug, which must not look like success.
                Some(Err(error)) => std::panic::resume_unwind(error.into_panic()),
            }
        }
    }

    /// Settles or starts one node, or stops a service nobody needs any more.
    /// Returns whether anything changed.
    async fn advance(&mut self, tasks: &mut JoinSet<Finished>) -> Result<bool, RunError> {
        if self.stop_idle_services().await? {
            return Ok(true);
        }
        for name in self.walk.dag.order() {
            if self.walk.done.contains_key(name) || self.running.contains(name) {
                continue;
            }
            let node = &self.walk.plan.nodes[name.as_str()];
            if let Some((outcome, reason)) = self.verdict(node) {
                self.settle(node, outcome, reason)?;
                return Ok(true);
            }
            let waits =
                self.walk.dag.dependencies(name).any(|(dependency, _)| !self.is_available(dependency));
            if !waits && node.kind.class() != Class::Service && self.consider(node, tasks)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// An outcome that is certain before the node runs.
    fn verdict(&self, node: &PlannedNode) -> Option<(Outcome, String)> {
        let certain = self.walk.verdict(node);
        // A service has no work of its own: it stops when its users have ended.
        if certain.is_some() || node.kind.reads_subjects() || node.kind.class() == Class::Service {
            return certain;
        }
        if *self.walk.world.cancelled.borrow() {
            return Some((Outcome::Cancelled, "stopped by the user".to_owned()));
        }
        let failed = self.failed.as_ref().filter(|_| !self.options.keep_going)?;
        Some((Outcome::Skipped, format!("left out after {failed} failed; --keep-going runs it")))
    }

    /// Whether what a node produces can be used: a service counts once its
    /// own inputs are there, because it starts when it is needed.
    fn is_available(&self, name: &str) -> bool {
        if self.walk.done.contains_key(name) {
            return true;
        }
        self.services.contains_key(name)
            && self.walk.dag.dependencies(name).all(|(dependency, _)| self.walk.done.contains_key(dependency))
    }

    /// Takes an earlier result, or starts the node if it may start now.
    fn consider(&mut self, node: &PlannedNode, tasks: &mut JoinSet<Finished>) -> Result<bool, RunError> {
        let context = self.walk.context(node)?;
        let key = match self.walk.key(node, &context) {
            Ok(key) => key,
            Err(failure) => {
                self.fail(node, failure)?;
                return Ok(true);
            }
        };
        let stored = match self.walk.world.store.result(key.digest) {
            _ if self.must_measure(node) => None,
            Ok(stored) => stored,
            Err(error) => {
                self.fail(node, Failure::from(error))?;
                return Ok(true);
            }
        };
        let primed_by = stored.as_ref().map(|stored| stored.primed_by.clone()).unwrap_or_default();
        if let Some(record) = stored.and_then(|stored| reusable(&self.walk.world.store, node, &key, stored)) {
            self.walk.recall_priming(&primed_by);
            self.end(node, record, None, Timestamp::now(), Duration::ZERO)?;
            return Ok(true);
        }
        let quiet = node.kind.is_quiet();
        let disturbed = if quiet {
            !self.running.is_empty()
        } else {
            self.running.iter().any(|name| self.walk.plan.nodes[name.as_str()].kind.is_quiet())
        };
        if disturbed || self.running.len() >= self.options.jobs {
            return Ok(false);
        }
        if self.prepare_priming(node) {
            return Ok(true);
        }
        self.start(node, context, key, tasks)?;
        Ok(true)
    }

    /// Whether an earlier result does not count for this node.
    fn must_measure(&self, node: &PlannedNode) -> bool {
        let measures = matches!(node.kind.class(), Class::Measurement | Class::Priming);
        self.forced.contains(&node.name) || self.options.remeasure && measures
    }

    /// Drops earlier results of what primes the services of a node, because
    /// it is about to start them again. Returns whether there were any.
    fn prepare_priming(&mut self, node: &PlannedNode) -> bool {
        let stale = self.walk.stale_priming(&node.name);
        for name in &stale {
            self.walk.done.remove(name);
            self.results.remove(name);
            self.ended.retain(|ended| ended != name);
            self.forced.insert(name.clone());
        }
        !stale.is_empty()
    }

    /// What primed the services of a node, by its evidence.
    fn primed_by(&self, node: &str) -> BTreeMap<String, Digest> {
        let dependencies = self.walk.dag.dependencies(node).map(|(dependency, _)| dependency);
        let priming = dependencies.filter(|name| self.walk.plan.nodes[*name].kind.class() == Class::Priming);
        priming.filter_map(|name| Some((name.to_owned(), self.walk.done.get(name)?.evidence?))).collect()
    }

    fn start(
        &mut self,
        node: &PlannedNode,
        context: Context,
        key: Key,
        tasks: &mut JoinSet<Finished>,
    ) -> Result<(), RunError> {
        make_dir(&context.work)?;
        let started_at = Timestamp::now();
        *self.attempts.entry(node.name.clone()).or_default() += 1;
        let mut row = row(node, self.attempts[&node.name], started_at, Duration::ZERO);
        row.key = Some(key.digest.to_string());
        self.state.record_node(&self.walk.world.run, &row)?;
        (self.walk.world.events)(Event::NodeStarted { node: node.name.clone(), kind: node.kind.name() });
        self.running.insert(node.name.clone());
        let services = self.services_of(node)?;
        let kind = Arc::clone(&node.kind);
        let timeout = node.timeout.map(crate::value::Duration::as_std);
        tasks.spawn(async move { execute(kind, context, key, services, timeout, started_at).await });
        Ok(())
    }

    /// The services that a node refers to, with what it takes to start them.
    fn services_of(&self, node: &PlannedNode) -> Result<Vec<NeededService>, RunError> {
        let mut needed = Vec::new();
        for name in self.walk.used_services(&node.name) {
            let service = &self.walk.plan.nodes[name];
            let context = self.walk.context(service)?;
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

    fn finish(&mut self, finished: Finished) -> Result<(), RunError> {
        let Finished { name, started_at, took, key, services, result, work } = finished;
        let node = &self.walk.plan.nodes[name.as_str()];
        self.running.remove(&name);
        self.forced.remove(&name);
        let made =
            Made { key: &key, services: &services, primed_by: self.primed_by(&name), started_at, took };
        let (mut record, failure) = match result.and_then(|produced| keep(&self.walk.world, &produced, made))
        {
            Ok((outputs, evidence)) => {
                // What is left of a finished node's work directory is not needed.
                let _ = fs::remove_dir_all(&work);
                let record =
                    InputRecord { outputs, evidence: Some(evidence), ..blank(node, Outcome::Succeeded) };
                (record, None)
            }
            Err(failure) => (self.failed(node, &failure), Some(failure)),
        };
        record.services = services;
        record.key = Some(key.digest);
        self.end(node, record, failure, started_at, took)
    }

    /// The record of a node that did not succeed; evidence of the failed work
    /// is kept for reports, and never as a result.
    fn failed(&self, node: &PlannedNode, failure: &Failure) -> InputRecord {
        let world = &self.walk.world;
        let outcome = match failure.kind {
            FailureKind::Cancelled => Outcome::Cancelled,
            FailureKind::Failed | FailureKind::Environment => Outcome::Failed,
        };
        let evidence = failure.evidence.clone().map(|evidence| world.site.mask_value(*evidence));
        let evidence = evidence.and_then(|evidence| world.store.put_json(&evidence).ok());
        InputRecord { reason: Some(world.site.mask(&failure.message)), evidence, ..blank(node, outcome) }
    }

    /// Stops every service whose users have all ended, and settles it.
    async fn stop_idle_services(&mut self) -> Result<bool, RunError> {
        let idle = self.services.iter().find(|(name, _)| {
            !self.walk.done.contains_key(*name)
                && self.is_available(name)
                && self.verdict(&self.walk.plan.nodes[name.as_str()]).is_none()
                && self.walk.consumers(name).all(|user| self.walk.done.contains_key(user))
        });
        let Some((name, slot)) = idle.map(|(name, slot)| (name.clone(), Arc::clone(slot))) else {
            return Ok(false);
        };
        let node = &self.walk.plan.nodes[name.as_str()];
        let running = slot.is_running().await;
        let started = Timestamp::now();
        let ended = slot.stop().await;
        let evidence = self.walk.proof_of(&name);
        let outputs = self.walk.armed(&name).map(|record| record.outputs).unwrap_or_default();
        let (outcome, reason, failure) = match ended {
            Some(Ok(())) => (Outcome::Succeeded, None, None),
            Some(Err(failure)) => (Outcome::Failed, Some(failure.message.clone()), Some(failure)),
            None if evidence.is_some() => {
                (Outcome::Reused, Some("not started: every node that uses it was reused".to_owned()), None)
            }
            None => (Outcome::Skipped, Some("not started: no node that uses it ran".to_owned()), None),
        };
        if running && let Some(context) = failure.is_none().then(|| self.walk.context(node)).transpose()? {
            // A server that ended well leaves only its log.
            let _ = fs::remove_dir_all(context.work);
        }
        let key = self.walk.armed(&name).and_then(|armed| armed.key);
        let record = InputRecord { reason, outputs, evidence, key, ..blank(node, outcome) };
        self.end(node, record, failure, started, Duration::ZERO)?;
        Ok(true)
    }

    fn fail(&mut self, node: &PlannedNode, failure: Failure) -> Result<(), RunError> {
        let record = self.failed(node, &failure);
        self.end(node, record, Some(failure), Timestamp::now(), Duration::ZERO)
    }

    fn settle(&mut self, node: &PlannedNode, outcome: Outcome, reason: String) -> Result<(), RunError> {
        let record = InputRecord { reason: Some(reason), ..blank(node, outcome) };
        let cancelled = (outcome == Outcome::Cancelled).then(Failure::cancelled);
        self.end(node, record, cancelled, Timestamp::now(), Duration::ZERO)
    }

    /// Records the end of a node, once, for the state, the reporters and the
    /// nodes that depend on it.
    fn end(
        &mut self,
        node: &PlannedNode,
        record: InputRecord,
        failure: Option<Failure>,
        started_at: Timestamp,
        took: Duration,
    ) -> Result<(), RunError> {
        let attempt = self.attempts.get(&node.name).copied().unwrap_or(1);
        let row = NodeRow {
            outcome: record.outcome.word().to_owned(),
            reason: record.reason.clone(),
            key: record.key.map(|key| key.to_string()),
            evidence: record.evidence.map(|digest| digest.to_string()),
            ..row(node, attempt, started_at, took)
        };
        self.state.record_node(&self.walk.world.run, &row)?;
        // Who runs it may see what is not recorded.
        let told = failure.as_ref().filter(|_| record.outcome == Outcome::Failed);
        (self.walk.world.events)(Event::NodeFinished {
            node: node.name.clone(),
            outcome: record.outcome,
            reason: told.map(|failure| failure.message.clone()).or_else(|| record.reason.clone()),
            took,
            log_tail: failure.as_ref().and_then(|failure| failure.log_tail.clone()),
        });
        self.ended.push(node.name.clone());
        if failure.is_some() {
            self.failed.get_or_insert_with(|| node.name.clone());
        }
        let record = Arc::new(record);
        let result = NodeResult {
            name: node.name.clone(),
            target: node.target.clone(),
            record: Arc::clone(&record),
            failure: failure.map(|failure| failure.kind),
            took,
        };
        self.results.insert(node.name.clone(), result);
        self.walk.done.insert(node.name.clone(), record);
        let subjects = self.walk.subjects_of(&node.name);
        standing::raise(self.state, self.walk.plan, &self.walk.world, &subjects, &node.name)
    }
}

fn make_dir(path: &Path) -> Result<(), RunError> {
    fs::create_dir_all(path).map_err(|source| RunError::Directory { path: path.to_owned(), source })
}
