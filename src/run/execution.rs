//! Does the work of one node: its services first, then itself.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::key::Key;
use super::quiet;
use super::services::{Lost, Slot, explain};
use crate::node::{Context, Deadline, Failure, GRACE, Kind, LiveService, Produced};
use crate::plan::QuietSettings;
use crate::value::Digest;

/// What a task brings back.
pub(super) struct Finished {
    pub name: String,
    pub started_at: Timestamp,
    pub took: Duration,
    pub key: Key,
    pub services: BTreeMap<String, Digest>,
    pub result: Result<Produced, Failure>,
    /// The server whose death made it fail, if that is why.
    pub lost: Option<Lost>,
    pub work: PathBuf,
}

/// A service that a node refers to.
pub(super) struct NeededService {
    pub name: String,
    pub kind: Arc<Kind>,
    pub slot: Arc<Slot>,
    pub context: Context,
}

/// Starts the services a node needs and does its work.
pub(super) async fn execute(
    kind: Arc<Kind>,
    mut context: Context,
    key: Key,
    needed: Vec<NeededService>,
    timeout: Option<Duration>,
    quiet: QuietSettings,
    started_at: Timestamp,
) -> Finished {
    let started = Instant::now();
    let mut lost = None;
    let result = match start_services(&needed).await {
        Err(failure) => Err(failure),
        Ok(live) => {
            context.services = live;
            context.deadline = timeout.map(Deadline::after);
            match work(&kind, &context, &quiet).await {
                Err(failure) => {
                    let (failure, died) = explain(failure, &context.services).await;
                    lost = died.and_then(|died| lost_of(&needed, &died));
                    Err(failure)
                }
                Ok(produced) => unchanged(&kind, &context, &key).map(|()| produced),
            }
        }
    };
    let services = context.services.iter().map(|(name, live)| (name.clone(), live.evidence_digest));
    Finished {
        name: context.node.clone(),
        started_at,
        took: started.elapsed(),
        key,
        services: services.collect(),
        result,
        lost,
        work: context.work.clone(),
    }
}

/// Does the node's own work, on servers that are still ours.
async fn work(kind: &Kind, context: &Context, quiet: &QuietSettings) -> Result<Produced, Failure> {
    for service in context.services.values() {
        service.still_ours()?;
    }
    within(context.deadline, quiet::execute(kind, context, quiet)).await
}

fn lost_of(needed: &[NeededService], died: &str) -> Option<Lost> {
    let service = needed.iter().find(|service| service.name == died)?;
    Some(Lost { service: service.name.clone(), slot: Arc::clone(&service.slot) })
}

/// A result counts under the key it was begun for only while that is still
/// its key: what it read may have changed meanwhile.
fn unchanged(kind: &Kind, context: &Context, key: &Key) -> Result<(), Failure> {
    let now = kind.key_document(context)?;
    let changed = ["kind", "version", "settings"].iter().find(|part| now[**part] != key.document[**part]);
    match changed {
        None => Ok(()),
        Some(_) => Err(Failure::failed(
            "what it reads changed while it ran; run it again, and change nothing meanwhile",
        )),
    }
}

async fn start_services(needed: &[NeededService]) -> Result<BTreeMap<String, Arc<LiveService>>, Failure> {
    let mut live = BTreeMap::new();
    for service in needed {
        let started = service.slot.ensure(&service.kind, &service.context).await;
        let started = started.map_err(|failure| Failure {
            message: format!("{} could not be used: {}", service.name, failure.message),
            ..failure
        })?;
        live.insert(service.name.clone(), started);
    }
    Ok(live)
}

/// How long a node may take to end what it runs after its time is up: the
/// grace of its programs and what follows it.
const TIDY_UP: Duration = Duration::from_secs(GRACE.as_secs() + 5);

/// Waits for work that ends by itself when its time is up, and gives it up
/// where it does not.
async fn within<T>(
    deadline: Option<Deadline>,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let Some(deadline) = deadline else { return work.await };
    tokio::time::timeout_at(deadline.at() + TIDY_UP, work).await.unwrap_or_else(|_| Err(deadline.failure()))
}
