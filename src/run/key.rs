//! The key of a node: what its result depends on, and nothing else.
//!
//! A key is the BLAKE3 digest of a document in canonical JSON: compact, the
//! keys of every object sorted by their bytes. `explain` prints it.
//!
//! | field | holds |
//! |---|---|
//! | `form` | the version of this form |
//! | `kind`, `version` | the node's kind, and how often its meaning has changed |
//! | `settings` | its settings: content instead of places, programs by their files, no times, no secrets |
//! | `inputs` | for each node it reads, what that left, by content; for a warmup it waits for, that one's key |
//! | `machine` | for measurements only: the fingerprint of the machine |
//! | `subjects` | for reports only: what every subject rests on |

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::dag::{Dag, Edge};
use crate::node::{Artifact, Class, Context, Failure, InputRecord, Kind, SubjectInputs};
use crate::value::Digest;

/// Counts up when the form of the document changes, so that no result is found
/// under a key that meant something else.
const FORM: u32 = 1;

/// A key and the document it is the digest of.
#[derive(Debug, Clone)]
pub(super) struct Key {
    pub digest: Digest,
    pub document: Value,
}

/// The key of a node whose inputs are there. `context` holds their records;
/// a service among them counts by its own key.
pub(super) fn key(kind: &Kind, name: &str, dag: &Dag, context: &Context) -> Result<Key, Failure> {
    let mut document = kind.key_document(context)?;
    document["form"] = json!(FORM);
    let mut inputs = Map::new();
    for (dependency, edge) in dag.dependencies(name) {
        let Some(record) = context.inputs.get(dependency) else { continue };
        if let Some(digest) = counted(kind, dependency, edge, record) {
            inputs.insert(dependency.to_owned(), json!(digest));
        }
    }
    document["inputs"] = Value::Object(inputs);
    if kind.class().is_measured() {
        document["machine"] = json!(context.world.host.fingerprint);
    }
    if kind.reads_subjects() {
        document["subjects"] =
            context.subjects.iter().map(|subject| self::subject(subject, context)).collect();
    }
    Ok(Key { digest: Digest::of_json(&document), document })
}

/// What enters the key of a node for a dependency.
pub(super) fn counted(kind: &Kind, dependency: &str, edge: Edge, record: &InputRecord) -> Option<Digest> {
    match (edge, record.settings.class()) {
        (Edge::Data, _) => {
            let several = record.outputs.len() > 1;
            let read = several.then(|| kind.outputs_read_of(dependency)).flatten();
            let known =
                |outputs: &BTreeSet<String>| outputs.iter().all(|name| record.outputs.contains_key(name));
            Some(match read.filter(known) {
                Some(read) => identity_of(record, |output| read.contains(output)),
                None => *record.identity.get_or_init(|| identity_of(record, |_| true)),
            })
        }
        // How a server was primed is part of a measurement; which of several
        // equal primings it was is recorded with the result.
        (Edge::Order, Class::Priming) => record.key,
        (Edge::Order | Edge::Any, _) => None,
    }
}

/// What a node left, by content: rebuilt but identical is the same, so where
/// a file came from does not count once its content is there. Nodes without
/// outputs and measurements leave their evidence. A service leaves its own
/// key, as its only output. Of several outputs those count that are read.
fn identity_of(record: &InputRecord, is_read: impl Fn(&str) -> bool) -> Digest {
    let by_outputs = match record.settings.class() {
        Class::Content => !record.outputs.is_empty(),
        Class::Service => true,
        Class::Measurement | Class::Priming => false,
    };
    let evidence = record.evidence.filter(|_| !by_outputs);
    let outputs: BTreeMap<&String, &Artifact> =
        record.outputs.iter().filter(|(name, _)| is_read(name)).collect();
    Digest::of_json(&json!({"outputs": outputs, "evidence": evidence}))
}

/// Everything the matrix shows of a subject: what its nodes left, where it
/// stands by it, and why not higher.
fn subject(subject: &SubjectInputs, context: &Context) -> Value {
    let standing = subject.read(context.store()).standing;
    let roles: Map<String, Value> = subject
        .roles
        .iter()
        .map(|(role, (_, record))| {
            let passed = record.outcome.passed();
            let left = json!([passed, record.evidence, if passed { None } else { record.reason.clone() }]);
            (role.clone(), left)
        })
        .collect();
    json!({
        "name": subject.name,
        "target": subject.target,
        "mode": subject.mode,
        "about": subject.about,
        "unmet": subject.unmet,
        "status": standing.status,
        "missing": standing.missing,
        "roles": roles,
    })
}
