//! What a node is given: what others left, its services, its directories.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use super::RunError;
use super::execution::NeededService;
use super::key::key;
use super::record::blank;
use super::scheduler::Scheduler;
use crate::dag::Edge;
use crate::event::Outcome;
use crate::node::{Artifact, Context, InputRecord, SubjectInputs};
use crate::plan::PlannedNode;
use crate::value::Digest;

impl Scheduler<'_> {
    pub(super) fn context(&self, node: &PlannedNode) -> Result<Context, RunError> {
        let dir = self.options.state_dir.join("runs").join(&self.world.run).join(&node.name);
        let dir = std::path::absolute(&dir).map_err(|source| RunError::Directory { path: dir, source })?;
        let mut inputs: BTreeMap<String, InputRecord> = BTreeMap::new();
        for ancestor in self.dag.ancestors(&node.name) {
            let record = match self.done.get(ancestor) {
                Some(result) => Some(result.record.clone()),
                None => self.armed(ancestor),
            };
            inputs.extend(record.map(|record| (ancestor.to_owned(), record)));
        }
        // A plan named without a directory has an empty parent.
        let parent = node.file.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let base = parent.unwrap_or(Path::new("."));
        Ok(Context {
            world: Arc::clone(&self.world),
            node: node.name.clone(),
            base: std::path::absolute(base)
                .map_err(|source| RunError::Directory { path: base.to_owned(), source })?,
            work: dir.join("work"),
            log: dir.join("log"),
            inputs,
            services: BTreeMap::new(),
            subjects: if node.kind.reads_subjects() { self.subjects() } else { Vec::new() },
        })
    }

    /// The services that a node refers to, with what it takes to start them.
    pub(super) fn services_of(&self, node: &PlannedNode) -> Result<Vec<NeededService>, RunError> {
        let mut needed = Vec::new();
        for (dependency, edge) in self.dag.dependencies(&node.name) {
            let Some(slot) = self.services.get(dependency).filter(|_| edge == Edge::Data) else { continue };
            let service = &self.plan.nodes[dependency];
            let context = self.context(service)?;
            make_dir(&context.work)?;
            needed.push(NeededService {
                name: dependency.to_owned(),
                kind: Arc::clone(&service.kind),
                slot: Arc::clone(slot),
                context,
            });
        }
        Ok(needed)
    }

    /// The plan's subjects with what their nodes left so far.
    pub(super) fn subjects(&self) -> Vec<SubjectInputs> {
        self.plan
            .subjects
            .iter()
            .map(|subject| SubjectInputs {
                name: subject.name.clone(),
                target: subject.target.clone(),
                mode: subject.mode,
                error_limit: subject.error_limit,
                about: subject.about.clone(),
                unmet: self.unmet.get(&subject.target).cloned(),
                roles: subject
                    .roles
                    .iter()
                    .filter_map(|(role, node)| Some((role.clone(), (node.clone(), self.left_by(node)?))))
                    .collect(),
            })
            .collect()
    }

    /// What a node left so far. A server that still runs has proved itself to
    /// the nodes that used it.
    fn left_by(&self, node: &str) -> Option<InputRecord> {
        if let Some(result) = self.done.get(node) {
            return Some(result.record.clone());
        }
        let evidence = self.proof_of(node)?;
        Some(InputRecord { evidence: Some(evidence), ..self.armed(node)? })
    }

    /// The evidence of a server, as one of the nodes that used it recorded it.
    pub(super) fn proof_of(&self, service: &str) -> Option<Digest> {
        self.consumers(service)
            .filter_map(|user| self.done.get(user))
            .find_map(|result| result.record.services.get(service).copied())
    }

    /// A service that is not settled yet counts for its consumers' keys by
    /// its own key, whether it runs or not.
    pub(super) fn armed(&self, name: &str) -> Option<InputRecord> {
        self.services.get(name)?;
        let node = &self.plan.nodes[name];
        let context = self.context(node).ok()?;
        let key = key(&node.kind, name, self.dag, &context).ok()?;
        Some(InputRecord {
            outputs: BTreeMap::from([("key".to_owned(), Artifact::Value(key.digest.to_string()))]),
            key: Some(key.digest),
            ..blank(node, Outcome::Succeeded)
        })
    }

    /// Services that a node uses itself.
    pub(super) fn used_services(&self, node: &str) -> impl Iterator<Item = &str> {
        let data = self.dag.dependencies(node).filter(|(_, edge)| *edge == Edge::Data);
        data.map(|(dependency, _)| dependency).filter(|dependency| self.services.contains_key(*dependency))
    }

    /// Nodes that use a service themselves.
    pub(super) fn consumers(&self, service: &str) -> impl Iterator<Item = &str> {
        self.dag.dependents(service).filter(move |user| self.used_services(user).any(|used| used == service))
    }
}

pub(super) fn make_dir(path: &Path) -> Result<(), RunError> {
    fs::create_dir_all(path).map_err(|source| RunError::Directory { path: path.to_owned(), source })
}
