//! Results to the store and back, and their rows in the state.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::key::Key;
use super::{millis, timestamp};
use crate::event::Outcome;
use crate::node::{Artifact, Failure, InputRecord, Produced, World};
use crate::plan::PlannedNode;
use crate::state::NodeRow;
use crate::store::{Store, StoreError, StoredResult, TreeEntry};
use crate::value::Digest;

/// How a result came about.
pub(super) struct Made<'a> {
    pub key: &'a Key,
    pub services: &'a BTreeMap<String, Digest>,
    pub primed_by: BTreeMap<String, Digest>,
    pub started_at: Timestamp,
    pub took: Duration,
}

/// The record of a node that left nothing.
pub(super) fn blank(node: &PlannedNode, outcome: Outcome) -> InputRecord {
    InputRecord {
        settings: Arc::clone(&node.kind),
        outcome,
        reason: None,
        outputs: BTreeMap::new(),
        evidence: None,
        services: BTreeMap::new(),
        key: None,
    }
}

/// The state's row of a node that runs.
pub(super) fn row(node: &PlannedNode, attempt: u32, started_at: Timestamp, took: Duration) -> NodeRow {
    NodeRow {
        node: node.name.clone(),
        kind: node.kind.name().to_owned(),
        outcome: "running".to_owned(),
        reason: None,
        key: None,
        evidence: None,
        attempt,
        started_at: timestamp(started_at),
        took_ms: millis(took),
    }
}

/// A stored result as this node's record, if everything it names is there.
pub(super) fn reusable(
    store: &Store,
    node: &PlannedNode,
    key: &Key,
    stored: StoredResult,
) -> Option<InputRecord> {
    let outputs: BTreeMap<String, Artifact> = stored
        .outputs
        .into_iter()
        .map(|(name, value)| serde_json::from_value(value).map(|artifact| (name, artifact)))
        .collect::<Result<_, _>>()
        .ok()?;
    let there = outputs.values().all(|artifact| match artifact {
        Artifact::Environment(identity) => store.environment(*identity).is_some(),
        _ => true,
    });
    there.then(|| InputRecord {
        outputs,
        evidence: Some(stored.evidence),
        services: stored.services,
        key: Some(key.digest),
        ..blank(node, Outcome::Reused)
    })
}

/// What is gone of a stored result, in words.
pub(super) fn gone(stored: &StoredResult, blobs: &[Digest]) -> String {
    let mut names: Vec<String> = blobs.iter().map(|blob| called(stored, *blob)).collect();
    names.sort();
    names.dedup();
    names.join(", ")
}

/// What a blob is to a stored result, in words.
pub(super) fn called(stored: &StoredResult, blob: Digest) -> String {
    if stored.evidence == blob {
        return "its evidence".to_owned();
    }
    let other = |of: &BTreeMap<String, Digest>| {
        of.iter().find(|(_, digest)| **digest == blob).map(|(node, _)| format!("the evidence of {node}"))
    };
    let text = blob.to_string();
    let holds = |value: &serde_json::Value| value.to_string().contains(&text);
    let output = stored.outputs.iter().find(|(_, value)| holds(value));
    output
        .map(|(name, _)| format!("its output {name}"))
        .or_else(|| other(&stored.services))
        .or_else(|| other(&stored.primed_by))
        .unwrap_or_else(|| format!("the file {} of an output", blob.short()))
}

/// Stores what a node produced. An empty output is a failure, so that nothing
/// empty is ever reused.
pub(super) fn keep(
    world: &World,
    produced: &Produced,
    made: Made<'_>,
) -> Result<(BTreeMap<String, Artifact>, Digest), Failure> {
    let store = &world.store;
    let evidence = store.put_json(&world.site.mask_value(produced.evidence.clone()))?;
    let mut outputs = BTreeMap::new();
    let mut blobs = Vec::new();
    for (name, artifact) in &produced.outputs {
        let value = serde_json::to_value(artifact).map_err(|error| Failure::failed(error.to_string()))?;
        outputs.insert(name.clone(), value);
        if matches!(artifact, Artifact::File { digest, .. } if *digest == Digest::of("")) {
            return Err(Failure::failed(format!("its output {name} is empty; its log says what it did")));
        }
        blobs.extend(named_blobs(store, artifact)?);
    }
    let result = StoredResult {
        key_document: made.key.document.clone(),
        outputs,
        evidence,
        blobs,
        services: made.services.clone(),
        primed_by: made.primed_by,
        made_at: timestamp(made.started_at),
        took_ms: millis(made.took),
    };
    store.put_result(made.key.digest, &result)?;
    Ok((produced.outputs.clone(), evidence))
}

/// Everything that must be in the store for an artifact to be usable.
fn named_blobs(store: &Store, artifact: &Artifact) -> Result<Vec<Digest>, StoreError> {
    match artifact {
        Artifact::File { digest, .. } => Ok(vec![*digest]),
        Artifact::Tree(tree) => {
            let files = store.tree(*tree)?;
            Ok(files.iter().filter_map(TreeEntry::file).chain([*tree]).collect())
        }
        Artifact::Environment(_) | Artifact::Value(_) => Ok(Vec::new()),
    }
}
