//! Results to the store and back, and their rows in the state.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;

use super::key::Key;
use super::{millis, timestamp};
use crate::event::Outcome;
use crate::evidence::quiet::Machine;
use crate::node::{Artifact, Failure, InputRecord, Produced, World};
use crate::plan::{PlannedNode, QuietSettings};
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
    /// Whether it is one of perhaps several measurements under its key.
    pub measured: bool,
}

/// What was stored of a node.
pub(super) struct Kept {
    pub outputs: BTreeMap<String, Artifact>,
    pub evidence: Digest,
    /// Which measurement under its key it is, from 1.
    pub attempt: u32,
    /// Why the machine was busy meanwhile.
    pub busy: Vec<String>,
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
        identity: OnceLock::new(),
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

/// Why a stored result is not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unusable {
    /// It is not of the form that this version reads.
    Unreadable,
    /// A Python environment that it names is gone.
    EnvironmentGone,
    /// It is older than the plan allows.
    TooOld(crate::value::Duration),
    /// The machine was busy, and the plan refuses that.
    Busy(Vec<String>),
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable => f.write_str("it is not of a form that this version reads"),
            Self::EnvironmentGone => f.write_str("its Python environment is gone"),
            Self::TooOld(limit) => write!(f, "it is older than its `max_age` of {limit}"),
            Self::Busy(reasons) => write!(f, "the machine was busy then: {}", reasons.join(", ")),
        }
    }
}

/// Whether a result is older at `now` than a limit. A time that is not known,
/// or that lies ahead because a clock was set back, is not old.
fn is_older(made_at: &str, limit: crate::value::Duration, now: Timestamp) -> bool {
    let made_at: Option<Timestamp> = made_at.parse().ok();
    made_at
        .is_some_and(|made_at| now.duration_since(made_at).unsigned_abs() > limit.as_std() && made_at < now)
}

/// A stored result as this node's record, if everything it names is there and
/// it is not too old at `now`.
pub(super) fn reusable(
    store: &Store,
    node: &PlannedNode,
    key: &Key,
    stored: StoredResult,
    now: Timestamp,
) -> Result<InputRecord, Unusable> {
    if let Some(limit) = node.max_age.filter(|limit| is_older(&stored.made_at, *limit, now)) {
        return Err(Unusable::TooOld(limit));
    }
    let outputs: BTreeMap<String, Artifact> = stored
        .outputs
        .into_iter()
        .map(|(name, value)| serde_json::from_value(value).map(|artifact| (name, artifact)))
        .collect::<Result<_, _>>()
        .map_err(|_| Unusable::Unreadable)?;
    if environment_gone(store, &outputs) {
        return Err(Unusable::EnvironmentGone);
    }
    if node.quiet.as_ref().is_some_and(QuietSettings::refuses) {
        let busy = busy_then(store, stored.evidence);
        if !busy.is_empty() {
            return Err(Unusable::Busy(busy));
        }
    }
    Ok(InputRecord {
        outputs,
        evidence: Some(stored.evidence),
        services: stored.services,
        key: Some(key.digest),
        ..blank(node, Outcome::Reused)
    })
}

/// Why the machine was busy when something was measured, as its evidence says.
fn busy_then(store: &Store, evidence: Digest) -> Vec<String> {
    let evidence = store.get_json::<serde_json::Value>(evidence).ok();
    evidence.and_then(|evidence| Machine::of(&evidence)).map(|machine| machine.busy).unwrap_or_default()
}

/// Whether a Python environment among some outputs is no longer there.
pub(super) fn environment_gone(store: &Store, outputs: &BTreeMap<String, Artifact>) -> bool {
    outputs.values().any(|artifact| match artifact {
        Artifact::Environment(identity) => store.environment(*identity).is_none(),
        _ => false,
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
pub(super) fn keep(world: &World, produced: &Produced, made: Made<'_>) -> Result<Kept, Failure> {
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
        key_document: (&made.key.document).into(),
        outputs,
        evidence,
        blobs,
        services: made.services.clone(),
        primed_by: made.primed_by,
        attempt: 1,
        made_at: timestamp(made.started_at),
        took_ms: millis(made.took),
    };
    let attempt = if made.measured {
        store.put_attempt(made.key.digest, &result)?
    } else {
        store.put_result(made.key.digest, &result)?;
        1
    };
    let busy = Machine::of(&produced.evidence).map(|machine| machine.busy).unwrap_or_default();
    Ok(Kept { outputs: produced.outputs.clone(), evidence, attempt, busy })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_ages_by_its_limit_and_never_by_a_clock_that_was_set_back() {
        let limit: crate::value::Duration = "7d".parse().unwrap();
        let now: Timestamp = "2026-11-30T12:00:00Z".parse().unwrap();
        for (made_at, old) in [
            ("2026-11-30T11:59:59Z", false),
            ("2026-11-23T12:00:00Z", false),
            ("2026-11-23T11:59:59Z", true),
            ("2027-11-30T12:00:00Z", false),
            ("yesterday", false),
        ] {
            assert_eq!(is_older(made_at, limit, now), old, "{made_at}");
        }
    }
}
