//! The graph with what its nodes left so far: what a run and a forecast of it
//! both ask.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::RunError;
use super::key::{Key, key};
use super::record::blank;
use super::selection::Selection;
use crate::dag::{Dag, Edge};
use crate::event::Outcome;
use crate::node::{Artifact, Class, Context, Failure, InputRecord, SubjectInputs, World};
use crate::plan::{Plan, PlannedNode, Subject};
use crate::process;
use crate::value::Digest;

/// A plan with what its nodes left so far.
pub(super) struct Walk<'a> {
    pub plan: &'a Plan,
    pub dag: &'a Dag,
    pub world: Arc<World>,
    /// The part of the plan that is asked for.
    pub selection: &'a Selection,
    /// The run's directory, for work directories and logs; absolute.
    run_dir: PathBuf,
    /// Absolute directories of the plan's files, by the files.
    bases: HashMap<&'a Path, PathBuf>,
    /// Targets whose requirements do not hold, with the reason.
    pub unmet: BTreeMap<String, String>,
    /// What ended nodes left.
    pub done: BTreeMap<String, Arc<InputRecord>>,
    /// The subjects that a node is a part of, by the node.
    parts: HashMap<&'a str, Vec<&'a Subject>>,
}

impl<'a> Walk<'a> {
    /// A plan of which nothing is done yet.
    pub fn new(
        plan: &'a Plan,
        dag: &'a Dag,
        world: Arc<World>,
        selection: &'a Selection,
        state_dir: &'a Path,
        unmet: BTreeMap<String, String>,
    ) -> Result<Self, RunError> {
        let absolute = |path: &Path| {
            std::path::absolute(path).map_err(|source| RunError::Directory { path: path.to_owned(), source })
        };
        let run_dir = absolute(&state_dir.join("runs").join(&world.run))?;
        let mut bases = HashMap::new();
        for file in plan.nodes.values().map(|node| node.file.path.as_path()) {
            if !bases.contains_key(file) {
                // A plan named without a directory has an empty parent.
                let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
                bases.insert(file, absolute(parent.unwrap_or(Path::new(".")))?);
            }
        }
        let mut parts: HashMap<&str, Vec<&Subject>> = HashMap::new();
        for subject in &plan.subjects {
            let nodes: BTreeSet<&str> = subject.roles.iter().map(|(_, node)| node.as_str()).collect();
            for node in nodes {
                parts.entry(node).or_default().push(subject);
            }
        }
        Ok(Self { plan, dag, world, selection, run_dir, bases, unmet, done: BTreeMap::new(), parts })
    }

    /// What a node is given: what others left, its directories, no services.
    pub fn context(&self, node: &PlannedNode) -> Context {
        self.context_of_attempt(node, 1)
    }

    /// Like [`Walk::context`], with the log of one of several attempts.
    pub fn context_of_attempt(&self, node: &PlannedNode, attempt: u32) -> Context {
        let dir = self.run_dir.join(&node.name);
        Context {
            world: Arc::clone(&self.world),
            node: node.name.clone(),
            base: self.bases[node.file.path.as_path()].clone(),
            work: dir.join("work"),
            log: process::log::of_attempt(&dir, attempt),
            inputs: self.inputs(&node.name),
            services: BTreeMap::new(),
            deadline: None,
            subjects: if node.kind.reads_subjects() { self.subjects() } else { Vec::new() },
        }
    }

    /// What a node depends on, and what the settings of those nodes refer to:
    /// a server runs the launcher that its bundle names.
    fn inputs(&self, name: &str) -> BTreeMap<String, Arc<InputRecord>> {
        let reached = self.reached(name).into_iter();
        reached.filter_map(|node| Some((node.to_owned(), self.at_hand(node)?))).collect()
    }

    /// The nodes whose results a node may read, itself or through the services
    /// that are started for it.
    pub fn read_by(&self, name: &str) -> BTreeSet<&str> {
        let by_services = self.used_services(name).flat_map(|service| self.reached(service));
        by_services.chain(self.reached(name)).collect()
    }

    fn reached(&self, name: &str) -> BTreeSet<&str> {
        let mut reached: BTreeSet<&str> = BTreeSet::new();
        for (dependency, edge) in self.dag.dependencies(name) {
            reached.insert(dependency);
            if edge == Edge::Data {
                reached.extend(self.data(dependency));
            }
        }
        reached
    }

    /// What a node left, or the key of a service that may still run.
    fn at_hand(&self, node: &str) -> Option<Arc<InputRecord>> {
        self.done.get(node).cloned().or_else(|| self.armed(node).map(Arc::new))
    }

    /// The key of a node whose inputs are there.
    pub fn key(&self, node: &PlannedNode, context: &Context) -> Result<Key, Failure> {
        key(&node.kind, &node.name, self.dag, context)
    }

    /// A service that is not settled yet counts for its consumers' keys by
    /// its own key, whether it runs or not.
    pub fn armed(&self, name: &str) -> Option<InputRecord> {
        if !self.is_service(name) {
            return None;
        }
        let node = &self.plan.nodes[name];
        let context = self.context(node);
        let key = self.key(node, &context).ok()?;
        Some(InputRecord {
            outputs: BTreeMap::from([("key".to_owned(), Artifact::Value(key.digest.to_string()))]),
            key: Some(key.digest),
            ..blank(node, Outcome::Succeeded)
        })
    }

    /// The plan's subjects with what their nodes left so far.
    pub fn subjects(&self) -> Vec<SubjectInputs> {
        self.plan.subjects.iter().map(|subject| self.subject(subject)).collect()
    }

    /// The subjects that a node is a part of.
    pub fn subjects_of(&self, node: &str) -> Vec<SubjectInputs> {
        self.parts.get(node).into_iter().flatten().map(|subject| self.subject(subject)).collect()
    }

    fn subject(&self, subject: &Subject) -> SubjectInputs {
        let left =
            |(role, node): &(String, String)| Some((role.clone(), (node.clone(), self.left_by(node)?)));
        SubjectInputs {
            name: subject.name.clone(),
            target: subject.target.clone(),
            mode: subject.mode,
            error_limit: subject.error_limit,
            about: subject.about.clone(),
            unmet: self.unmet.get(&subject.target).cloned(),
            roles: subject.roles.iter().filter_map(left).collect(),
        }
    }

    /// What a node left so far. A server counts as it proved itself to the
    /// nodes that used it, whether it runs or has been stopped since.
    fn left_by(&self, node: &str) -> Option<Arc<InputRecord>> {
        let done = self.done.get(node).cloned();
        let proof = self.is_service(node).then(|| self.proof_of(node)).flatten();
        let Some(proof) = proof else { return done };
        let record = match done {
            Some(record) => (*record).clone(),
            None => self.armed(node)?,
        };
        Some(Arc::new(InputRecord { evidence: Some(proof), ..record }))
    }

    /// The evidence of a server, as one of the nodes that used it recorded it.
    pub fn proof_of(&self, service: &str) -> Option<Digest> {
        self.consumers(service)
            .filter_map(|user| self.done.get(user))
            .find_map(|record| record.services.get(service).copied())
    }

    /// An outcome that is certain by the machine and by what ended before.
    pub fn verdict(&self, node: &PlannedNode) -> Option<(Outcome, String)> {
        if node.target.as_ref().is_some_and(|target| self.unmet.contains_key(target)) {
            return Some((Outcome::NotRun, "the target cannot run on this machine".to_owned()));
        }
        for (dependency, edge) in self.dag.dependencies(&node.name) {
            let Some(record) = self.done.get(dependency).filter(|_| edge != Edge::Any) else { continue };
            match record.outcome {
                outcome if outcome.passed() => {}
                Outcome::NotRun => return Some((Outcome::NotRun, format!("{dependency} was not run"))),
                Outcome::Cancelled => return Some((Outcome::Cancelled, "stopped by the user".to_owned())),
                Outcome::Skipped => return Some((Outcome::Skipped, format!("{dependency} was skipped"))),
                _ => return Some((Outcome::Blocked, format!("{dependency} did not succeed"))),
            }
        }
        None
    }

    /// Earlier results of what primes the services of a node: a server that is
    /// started again for it has to be warmed up again.
    /// `is_cold` says of what primed one in this run whether that server was
    /// stopped since.
    pub fn stale_priming(&self, node: &str, is_cold: impl Fn(&str) -> bool) -> Vec<String> {
        let services: BTreeSet<&str> = self.used_services(node).collect();
        let is_stale = |dependency: &&str| {
            self.is_priming(dependency)
                && self.used_services(dependency).any(|service| services.contains(service))
                && self.done.get(*dependency).is_some_and(|record| {
                    record.outcome == Outcome::Reused || record.outcome.passed() && is_cold(dependency)
                })
        };
        let dependencies = self.dag.dependencies(node).map(|(dependency, _)| dependency);
        dependencies.filter(is_stale).map(str::to_owned).collect()
    }

    /// What has primed a service for a node that has yet to use it.
    pub fn priming_of(&self, service: &str) -> Vec<String> {
        let is_open = |user: &str| {
            !self.done.contains_key(user) && self.used_services(user).any(|used| used == service)
        };
        let primed = self.consumers(service).filter(|name| {
            self.is_priming(name) && self.done.contains_key(*name) && self.dag.dependents(name).any(is_open)
        });
        primed.map(str::to_owned).collect()
    }

    fn is_priming(&self, node: &str) -> bool {
        self.plan.nodes[node].kind.class() == Class::Priming
    }

    /// A measurement that is reused was primed by what primed it then.
    pub fn recall_priming(&mut self, primed_by: &BTreeMap<String, Digest>) {
        for (name, evidence) in primed_by {
            if let Some(record) = self.done.get_mut(name) {
                let record = Arc::make_mut(record);
                record.evidence = Some(*evidence);
                record.identity.take();
            }
        }
    }

    /// Whether a node may run, and not only be taken from the store: it is
    /// asked for, or primes a server for one that is.
    pub fn may_run(&self, node: &PlannedNode) -> bool {
        let primes = node.kind.class() == Class::Priming;
        self.selection.contains(&node.name) || primes && self.selection.needs(&node.name)
    }

    /// Whether a node has a lifetime instead of a result.
    pub fn is_service(&self, node: &str) -> bool {
        self.plan.nodes.get(node).is_some_and(|node| node.kind.class() == Class::Service)
    }

    /// Services that a node uses itself.
    pub fn used_services(&self, node: &str) -> impl Iterator<Item = &str> {
        self.data(node).filter(|dependency| self.is_service(dependency))
    }

    /// Nodes that use a service themselves.
    pub fn consumers(&self, service: &str) -> impl Iterator<Item = &str> {
        self.dag.dependents(service).filter(move |user| self.used_services(user).any(|used| used == service))
    }

    /// Nodes whose results a node reads.
    fn data(&self, node: &str) -> impl Iterator<Item = &str> {
        self.dag.dependencies(node).filter(|(_, edge)| *edge == Edge::Data).map(|(dependency, _)| dependency)
    }
}
