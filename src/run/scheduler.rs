//! Walks the graph: a node starts when its inputs are there, a measurement
//! when nothing else runs, a service when somebody needs it.

mod admission;
mod healing;
mod priming;
mod restart;
mod retrying;
mod serving;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::task::JoinSet;

use self::healing::Repairs;
use self::retrying::{Attempt, Retries};
use super::agenda::Agenda;
use super::execution::{Finished, execute};
use super::journal::Journal;
use super::key::Key;
use super::quiet::flag;
use super::record::{Kept, Made, blank, keep, reusable, row};
use super::resources::Resources;
use super::services::{Slot, Slots};
use super::walk::Walk;
use super::{Foresight, NodeResult, Options, RunError, standing};
use crate::event::{Event, Outcome};
use crate::node::{Class, Context, Failure, FailureKind, InputRecord, Stopped, SubjectInputs};
use crate::plan::PlannedNode;
use crate::state::{NodeRow, State};

/// What the scheduler waits for.
enum Woken {
    /// A node has done its work, or failed.
    Finished(Box<Finished>),
    /// The next attempt of a node may begin.
    Due(String),
}

/// A run in progress.
pub(super) struct Scheduler<'a> {
    walk: Walk<'a>,
    options: &'a Options,
    state: &'a State,
    agenda: Agenda<'a>,
    foresight: Foresight,
    journal: Journal<'a>,
    services: Slots,
    results: BTreeMap<String, NodeResult>,
    /// Nodes in the order they ended.
    ended: Vec<String>,
    /// The first node that failed by itself.
    failed: Option<String>,
    running: BTreeSet<String>,
    /// Nodes that must run although an earlier result is there.
    forced: BTreeSet<String>,
    /// The number of the attempt that a node is at, where it is not the first.
    attempts: BTreeMap<String, u32>,
    /// How often a service was started again after it died.
    restarts: BTreeMap<String, u32>,
    repairs: Repairs,
    retries: Retries,
    resources: Resources,
    /// Services that were stopped to make room, although they have users left.
    paused: BTreeMap<String, Stopped>,
    /// Whether the nodes are looked at in the order of their priorities.
    prioritised: bool,
    /// Whether the end of the run that the user asked for is known.
    cancelled: bool,
}

impl<'a> Scheduler<'a> {
    pub fn new(walk: Walk<'a>, options: &'a Options, state: &'a State, foresight: Foresight) -> Self {
        let services = walk.plan.nodes.keys().filter(|name| walk.is_service(name));
        let services = services.map(|name| (name.clone(), Arc::new(Slot::default()))).collect();
        Self {
            agenda: Agenda::new(walk.dag),
            resources: Resources::new(walk.plan, &walk.world.host),
            paused: BTreeMap::new(),
            prioritised: false,
            foresight,
            journal: Journal::new(state, &options.state_dir, &walk.world.run),
            cancelled: false,
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
            restarts: BTreeMap::new(),
            repairs: Repairs::default(),
            retries: Retries::default(),
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
        let mut tasks: JoinSet<Woken> = JoinSet::new();
        loop {
            while let Some(name) = self.agenda.next() {
                self.look_at(name, &mut tasks).await?;
            }
            self.journal.flush()?;
            let woken = tokio::select! {
                woken = tasks.join_next() => woken,
                () = self.walk.world.cancelled.raised(), if !self.cancelled => {
                    self.begin_to_stop(&tasks);
                    continue;
                }
            };
            match woken {
                None if self.make_room().await? => {}
                None => return Ok(()),
                Some(Ok(Woken::Finished(finished))) => self.finish(*finished, &mut tasks)?,
                Some(Ok(Woken::Due(name))) => {
                    self.retries.due(&name);
                    self.agenda.add(&name);
                }
                // A task of ours panicked: a bug, which must not look like success.
                Some(Err(error)) => std::panic::resume_unwind(error.into_panic()),
            }
        }
    }

    /// Has every node looked at, because none is started any more. Those that
    /// run end by themselves.
    fn begin_to_stop(&mut self, tasks: &JoinSet<Woken>) {
        self.cancelled = true;
        self.agenda.add_all();
        if !tasks.is_empty() {
            (self.walk.world.events)(Event::Stopping);
        }
    }

    /// Settles or starts a node if that can be done now, or stops a service
    /// that nobody needs any more.
    async fn look_at(&mut self, name: &str, tasks: &mut JoinSet<Woken>) -> Result<(), RunError> {
        if self.walk.done.contains_key(name) || self.running.contains(name) {
            return Ok(());
        }
        let node = &self.walk.plan.nodes[name];
        if let Some((outcome, reason)) = self.verdict(node) {
            return self.settle(node, outcome, reason);
        }
        if node.kind.class() == Class::Service {
            return self.stop_if_idle(name).await;
        }
        if self.walk.dag.dependencies(name).any(|(dependency, _)| !self.is_available(dependency)) {
            return Ok(());
        }
        if self.waits_for_a_repair(name) || self.retries.is_waiting(name) {
            return Ok(());
        }
        self.consider(node, tasks)
    }

    /// An outcome that is certain before the node runs.
    fn verdict(&self, node: &PlannedNode) -> Option<(Outcome, String)> {
        let certain = self.walk.verdict(node);
        // A service has no work of its own: it stops when its users have ended.
        if certain.is_some() || node.kind.reads_subjects() || node.kind.class() == Class::Service {
            return certain;
        }
        if self.walk.world.cancelled.is_raised() {
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

    /// What a node is given for the attempt that it is at.
    fn context(&self, node: &PlannedNode) -> Context {
        self.walk.context_of_attempt(node, self.attempt(&node.name))
    }

    /// Takes an earlier result, or starts the node if it may start now.
    fn consider(&mut self, node: &PlannedNode, tasks: &mut JoinSet<Woken>) -> Result<(), RunError> {
        let context = self.context(node);
        let key = match self.walk.key(node, &context) {
            Ok(key) => key,
            Err(failure) => return self.fail(node, failure, tasks),
        };
        let stored = match self.foresight.result(&self.walk.world.store, key.digest) {
            _ if self.must_measure(node) => None,
            Ok(stored) => stored,
            Err(error) => return self.fail(node, Failure::from(error), tasks),
        };
        let primed_by = stored.as_ref().map(|stored| stored.primed_by.clone()).unwrap_or_default();
        let now = Timestamp::now();
        let store = &self.walk.world.store;
        if let Some(record) = stored.and_then(|stored| reusable(store, node, &key, stored, now).ok()) {
            self.walk.recall_priming(&primed_by);
            return self.end(node, record, None, now, Duration::ZERO);
        }
        if !self.walk.may_run(node) && !self.forced.contains(&node.name) {
            return self.leave_out(node);
        }
        if self.prioritise()? {
            self.agenda.add(&node.name);
            return Ok(());
        }
        if let Some(lacks) = self.lacks(node) {
            return self.settle_failed(node, lacks);
        }
        if self.prepare_priming(node) || !self.may_start(node) {
            return Ok(());
        }
        self.start(node, context, key, tasks)
    }

    /// Whether an earlier result does not count for this node.
    fn must_measure(&self, node: &PlannedNode) -> bool {
        let measures = node.kind.class().is_measured() && self.walk.may_run(node);
        self.forced.contains(&node.name) || self.options.remeasure && measures
    }

    fn start(
        &mut self,
        node: &PlannedNode,
        context: Context,
        key: Key,
        tasks: &mut JoinSet<Woken>,
    ) -> Result<(), RunError> {
        make_dir(&context.work)?;
        let started_at = Timestamp::now();
        let mut row = row(node, self.attempt(&node.name), started_at, Duration::ZERO);
        row.key = Some(key.digest.to_string());
        self.journal.add(row);
        self.journal.flush()?;
        (self.walk.world.events)(Event::NodeStarted { node: node.name.clone(), kind: node.kind.name() });
        self.running.insert(node.name.clone());
        let services = self.services_of(node)?;
        let kind = Arc::clone(&node.kind);
        let timeout = node.timeout.map(crate::value::Duration::as_std);
        let quiet = node.quiet.clone().unwrap_or_default();
        tasks.spawn(async move {
            let finished = execute(kind, context, key, services, timeout, quiet, started_at).await;
            Woken::Finished(Box::new(finished))
        });
        Ok(())
    }

    fn finish(&mut self, finished: Finished, tasks: &mut JoinSet<Woken>) -> Result<(), RunError> {
        let Finished { name, started_at, took, key, services, result, lost, work } = finished;
        let node = &self.walk.plan.nodes[name.as_str()];
        self.running.remove(&name);
        self.resources.give_back(&name);
        self.look_at_held();
        let primed_by = self.primed_by(&name);
        let measured = node.kind.class().is_measured();
        let made = Made { key: &key, services: &services, primed_by, started_at, took, measured };
        let kept = result.and_then(|produced| keep(&self.walk.world, &produced, made));
        let record = kept.map(|kept| self.succeeded(node, kept)).and_then(|record| {
            self.fits(&name, &record)?;
            Ok(record)
        });
        let (mut record, failure) = match record {
            Ok(record) => {
                // What is left of a finished node's work directory is not needed.
                let _ = fs::remove_dir_all(&work);
                (record, None)
            }
            Err(failure) => {
                let attempt = Attempt { failure, key: Some(key.digest), started_at, took };
                let left = self.heal(node, attempt);
                let left = left.and_then(|attempt| self.restart(node, attempt, lost.as_ref()));
                let left = left.and_then(|attempt| self.retry(node, attempt, tasks));
                let Some(Attempt { failure, .. }) = left else { return Ok(()) };
                (self.failed(node, &failure), Some(failure))
            }
        };
        self.forced.remove(&name);
        record.services = services;
        record.key = Some(key.digest);
        self.end(node, record, failure, started_at, took)
    }

    /// The record of a node that did its work.
    fn succeeded(&self, node: &PlannedNode, Kept { outputs, evidence, attempt, busy }: Kept) -> InputRecord {
        let again = self.repairs.reason(&node.name);
        let retried = self.retries.reason(&node.name);
        let counted = (attempt > 1).then(|| format!("measurement {attempt} under this key; all are kept"));
        let reasons: Vec<String> =
            again.into_iter().chain(retried).chain(counted).chain(flag(&busy)).collect();
        InputRecord {
            outputs,
            evidence: Some(evidence),
            reason: (!reasons.is_empty()).then(|| reasons.join("; ")),
            ..blank(node, Outcome::Succeeded)
        }
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

    /// Ends a node that failed before it began to work, unless it is tried
    /// again.
    fn fail(
        &mut self,
        node: &PlannedNode,
        failure: Failure,
        tasks: &mut JoinSet<Woken>,
    ) -> Result<(), RunError> {
        let (started_at, took) = (Timestamp::now(), Duration::ZERO);
        let attempt = Attempt { failure, key: None, started_at, took };
        let left = self.heal(node, attempt).and_then(|attempt| self.retry(node, attempt, tasks));
        let Some(Attempt { failure, .. }) = left else { return Ok(()) };
        self.settle_failed(node, failure)
    }

    /// Ends a node that cannot begin to work.
    fn settle_failed(&mut self, node: &PlannedNode, failure: Failure) -> Result<(), RunError> {
        let record = self.failed(node, &failure);
        self.end(node, record, Some(failure), Timestamp::now(), Duration::ZERO)
    }

    /// Ends a node that the run was not asked for and that is not in the
    /// store; where a node that was asked for needs it, that is a failure.
    fn leave_out(&mut self, node: &PlannedNode) -> Result<(), RunError> {
        let reason = self.walk.selection.why_left_out(&node.name);
        let needed = self.walk.selection.needs(&node.name);
        let failure = needed.then(|| Failure::environment(reason.clone()));
        let record = InputRecord { reason: Some(reason), ..blank(node, Outcome::Skipped) };
        self.end(node, record, failure, Timestamp::now(), Duration::ZERO)
    }

    fn settle(&mut self, node: &PlannedNode, outcome: Outcome, reason: String) -> Result<(), RunError> {
        let record = InputRecord { reason: Some(reason), ..blank(node, outcome) };
        let cancelled = (outcome == Outcome::Cancelled).then(Failure::cancelled);
        self.end(node, record, cancelled, Timestamp::now(), Duration::ZERO)
    }

    /// The number of the attempt that a node is at, from 1.
    fn attempt(&self, name: &str) -> u32 {
        self.attempts.get(name).copied().unwrap_or(1)
    }

    /// Records in the state what became of an attempt.
    fn record(&mut self, node: &PlannedNode, record: &InputRecord, started_at: Timestamp, took: Duration) {
        self.journal.add(NodeRow {
            outcome: record.outcome.word().to_owned(),
            reason: record.reason.clone(),
            key: record.key.map(|key| key.to_string()),
            evidence: record.evidence.map(|digest| digest.to_string()),
            ..row(node, self.attempt(&node.name), started_at, took)
        });
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
        self.record(node, &record, started_at, took);
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
        if failure.is_some() && self.failed.is_none() {
            self.failed = Some(node.name.clone());
            self.agenda.add_all();
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
        self.walk.done.insert(node.name.clone(), Arc::clone(&record));
        self.wake(&node.name);
        self.settle_repair(&node.name, &record);
        let subjects = self.walk.subjects_of(&node.name);
        standing::raise(self.state, self.walk.plan, &self.walk.world, &subjects, &node.name)
    }

    /// Has those looked at that may have waited for a node: what depends on
    /// it, what depends on a service that can be used now, and the services
    /// that it used.
    fn wake(&mut self, ended: &str) {
        for dependent in self.walk.dag.dependents(ended) {
            self.agenda.add(dependent);
            if self.services.contains_key(dependent) {
                self.walk.dag.dependents(dependent).for_each(|user| self.agenda.add(user));
            }
        }
        for service in self.walk.used_services(ended) {
            self.agenda.add(service);
        }
    }
}

fn make_dir(path: &Path) -> Result<(), RunError> {
    fs::create_dir_all(path).map_err(|source| RunError::Directory { path: path.to_owned(), source })
}
