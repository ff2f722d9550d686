//! The server's records beside the client's.

use std::collections::{BTreeSet, HashMap, HashSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Inputs;
use crate::evidence::outcome::Outcome;
use crate::evidence::request::{Sent, ServerRecord};

/// The server may stop its clock a little after the client stops its own.
const CLOCK_SLACK_MS: f64 = 1.0;

/// What the server recorded, joined with who asked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServerAccount {
    /// Lines of the server's records.
    pub records: u64,
    /// Different request ids among them.
    pub requests: u64,
    /// Lines beyond the first of an id.
    pub duplicates: u64,
    /// Ids that the client's exports have.
    pub of_client: u64,
    /// Ids of the warmup node.
    pub of_warmup: u64,
    /// Ids of our own probes.
    pub of_probes: u64,
    /// Ids that nobody we know of sent.
    pub unmatched: Vec<String>,
    /// The client's requests without a record.
    pub client_without_record: Vec<String>,
    /// The warmup node's requests without a record.
    pub warmup_without_record: Vec<String>,
    /// Requests about which client and server contradict each other.
    pub conflicts: Vec<String>,
}

/// Joins the server's records by id with all requests known to us.
pub(super) fn join(records: &[ServerRecord], sent: &[&Sent], inputs: &Inputs<'_>) -> ServerAccount {
    let mut first: HashMap<&str, &ServerRecord> = HashMap::new();
    for record in records {
        first.entry(&record.request_id).or_insert(record);
    }
    let client: HashSet<&str> = sent.iter().map(|sent| sent.request_id.as_str()).collect();
    let warmup: BTreeSet<&str> =
        inputs.warmup.requests.iter().map(|request| request.request_id.as_str()).collect();
    let probes: HashSet<&str> = inputs.probes.iter().map(String::as_str).collect();

    let mut account = ServerAccount {
        records: records.len() as u64,
        requests: first.len() as u64,
        duplicates: (records.len() - first.len()) as u64,
        ..ServerAccount::default()
    };
    for id in first.keys().copied() {
        if client.contains(id) {
            account.of_client += 1;
        } else if warmup.contains(id) {
            account.of_warmup += 1;
        } else if probes.contains(id) {
            account.of_probes += 1;
        } else {
            account.unmatched.push(id.to_owned());
        }
    }
    account.unmatched.sort();
    for sent in sent {
        match first.get(sent.request_id.as_str()) {
            Some(record) => account.conflicts.extend(conflict(sent, record)),
            None => account.client_without_record.push(sent.request_id.clone()),
        }
    }
    let unseen = warmup.into_iter().filter(|id| !first.contains_key(id));
    account.warmup_without_record = unseen.map(str::to_owned).collect();
    account
}

/// Where the two sides cannot both be right. A stream that failed in its
/// middle keeps HTTP 200 on the client's side and is a failure on both.
fn conflict(sent: &Sent, record: &ServerRecord) -> Option<String> {
    let id = &sent.request_id;
    let outcome = sent.outcome();
    if let Some(status) = record.status {
        let success = (200..300).contains(&status);
        if matches!(outcome, Outcome::Answered | Outcome::Empty) && !success {
            return Some(format!("request {id}: {outcome} for the client, HTTP {status} for the server"));
        }
        let refused = sent.status.filter(|seen| *seen >= 300 && *seen != status);
        if let Some(seen) = refused {
            return Some(format!("request {id}: HTTP {seen} for the client, HTTP {status} for the server"));
        }
    }
    match (record.model_call_ms, sent.client.end_to_end_ms) {
        (Some(call), Some(whole)) if call > whole + CLOCK_SLACK_MS => Some(format!(
            "request {id}: the server's call took {call:.1} ms, longer than the client waited ({whole:.1} ms)"
        )),
        _ => None,
    }
}
