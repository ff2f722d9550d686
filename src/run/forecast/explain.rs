//! Everything that decides what becomes of one node.

use std::collections::BTreeSet;

use super::{Action, ExplainedInput, Explanation, Forecaster, LastKey, Measured, Question};
use crate::dag::Edge;
use crate::node::{Context, Kind};
use crate::plan::PlannedNode;
use crate::run::RunError;
use crate::run::difference::{Change, changes};
use crate::run::key::{Key, counted};
use crate::run::record::called;
use crate::store::{Recorded, StoreError, StoredResult};

/// Explains one node; nothing where the plan has no such node.
pub fn explain(question: &Question<'_>, name: &str) -> Result<Option<Explanation>, RunError> {
    let Some(node) = question.plan.nodes.get(name) else { return Ok(None) };
    let mut forecaster = Forecaster::new(question)?;
    forecaster.settle_all();
    let context = forecaster.context(node);
    let Some(mut forecast) = forecaster.nodes.get(name).cloned() else { return Ok(None) };
    let key = forecaster.keys.get(name);
    if forecast.changes.is_empty() && key.is_none() {
        forecast.changes = changes_so_far(&forecaster, node, &context);
    }
    let damaged = if forecast.action == Action::Reuse { damaged(question, key) } else { Vec::new() };
    Ok(Some(Explanation {
        schema_version: 1,
        file: node.file.path.display().to_string(),
        line: node.at.line,
        settings: settings(&node.kind),
        inputs: inputs(&forecaster, node, &context),
        key_document: key.map(|key| key.document.clone()),
        damaged,
        last: last(question, name, key),
        measurements: measurements(question, key),
        forecast,
    }))
}

fn settings(kind: &Kind) -> serde_json::Value {
    let mut named = serde_json::to_value(kind).unwrap_or_default();
    named.get_mut(kind.name()).map(serde_json::Value::take).unwrap_or_default()
}

/// What a node depends on and whose content is not known yet.
fn unknown<'a>(forecaster: &'a Forecaster<'_>, name: &'a str) -> BTreeSet<&'a str> {
    let walk = &forecaster.walk;
    let dependencies = walk.dag.dependencies(name).map(|(dependency, _)| dependency);
    let open = dependencies.filter(|dependency| {
        !walk.done.contains_key(*dependency) && !forecaster.keys.contains_key(*dependency)
    });
    let waits = forecaster.nodes.get(name).into_iter().flat_map(|node| &node.waits_for);
    open.chain(waits.map(String::as_str)).collect()
}

fn inputs(forecaster: &Forecaster<'_>, node: &PlannedNode, context: &Context) -> Vec<ExplainedInput> {
    let unknown = unknown(forecaster, &node.name);
    let dependencies = forecaster.walk.dag.dependencies(&node.name);
    let mut inputs: Vec<ExplainedInput> = dependencies
        .filter_map(|(dependency, edge)| {
            let record = context.inputs.get(dependency).filter(|_| !unknown.contains(dependency));
            Some(ExplainedInput {
                node: dependency.to_owned(),
                why: match edge {
                    Edge::Data => "data",
                    Edge::Order => "order",
                    Edge::Any => "whatever-was-left",
                }
                .to_owned(),
                action: forecaster.nodes.get(dependency)?.action,
                digest: record.and_then(|record| match edge {
                    Edge::Any => record.evidence.or_else(|| forecaster.walk.proof_of(dependency)),
                    edge => counted(&node.kind, dependency, edge, record).filter(|_| record.outcome.passed()),
                }),
            })
        })
        .collect();
    inputs.sort_by(|a, b| (&a.why, &a.node).cmp(&(&b.why, &b.node)));
    inputs
}

/// What differs from the last result as far as it is known before the inputs
/// have run.
fn changes_so_far(forecaster: &Forecaster<'_>, node: &PlannedNode, context: &Context) -> Vec<Change> {
    let last = || {
        let key = forecaster.question.last.get(&node.name)?.key.as_ref()?.parse().ok()?;
        match forecaster.walk.world.store.recorded(key).ok()? {
            Recorded::Whole(result) | Recorded::Broken { result, .. } => Some(result.key_document.value()),
            Recorded::Absent => None,
        }
    };
    let (Some(last), Ok(now)) = (last(), forecaster.walk.key(node, context)) else { return Vec::new() };
    let unknown = unknown(forecaster, &node.name);
    let open = |change: &Change| {
        change.path.starts_with("subjects")
            || change.path.strip_prefix("inputs.").is_some_and(|input| unknown.contains(input))
    };
    let mut changes = changes(&last, &now.document);
    changes.retain(|change| !open(change));
    changes
}

/// What of a stored result is there and is not what it should be.
fn damaged(question: &Question<'_>, key: Option<&Key>) -> Vec<String> {
    let store = &question.world.store;
    let Some(Ok(Recorded::Whole(result))) = key.map(|key| store.recorded(key.digest)) else {
        return Vec::new();
    };
    let is_damaged = |error: StoreError| matches!(error, StoreError::DamagedInPlace(_));
    let blobs = result.named().filter(|blob| store.verified_path(*blob).is_err_and(is_damaged));
    blobs.map(|blob| called(&result, blob)).collect()
}

fn measurements(question: &Question<'_>, key: Option<&Key>) -> Vec<Measured> {
    let attempts = key.and_then(|key| question.world.store.attempts(key.digest).ok()).unwrap_or_default();
    let measured = |StoredResult { attempt, made_at, took_ms, evidence, .. }| Measured {
        attempt,
        made_at,
        took_ms,
        evidence,
    };
    attempts.into_iter().map(measured).collect()
}

fn last(question: &Question<'_>, name: &str, key: Option<&Key>) -> Option<LastKey> {
    let last = question.last.get(name)?;
    let text = last.key.clone()?;
    let digest = text.parse().ok()?;
    Some(LastKey {
        same: key.is_some_and(|key| key.digest == digest),
        document_in_store: !matches!(question.world.store.recorded(digest), Ok(Recorded::Absent) | Err(_)),
        at: last.at.clone(),
        retried: last.retried.clone(),
        said: last.said.clone(),
        key: text,
    })
}
