//! Accounting: every planned turn and every request, by identity.
//!
//! [`account`] turns what was planned and what was observed into one document
//! whose sums add up; [`Accounting::complete`] says whether the run did what
//! was planned. Errors of requests are counted here and judged elsewhere.

mod document;
mod matching;
mod server;
mod verdict;

use std::collections::{BTreeMap, HashMap};

use indexmap::IndexMap;

pub use document::{Accounting, CategoryAccount, Sending, SharedText, Totals, TurnAccount, WarmupAccount};
pub use matching::MatchedBy;
pub use server::ServerAccount;

use super::outcome::Outcome;
use super::request::{ClientReport, ExportFault, Phase, Planned, Sent, ServerRecord};
use super::warmup::{Warmup, WarmupRequest};
use crate::value::Digest;
use matching::Match;

/// Version of the [`Accounting`] document.
pub const SCHEMA_VERSION: u32 = 1;

/// Everything that is accounted for.
#[derive(Debug, Clone, Copy)]
pub struct Inputs<'a> {
    /// The pinned selection, in its order.
    pub planned: &'a [Planned],
    /// Rows of the selection that still hold placeholder text.
    pub placeholder_rows: u64,
    /// The client's requests.
    pub sent: &'a [Sent],
    /// Where the exports, or the server's records, are not whole.
    pub faults: &'a [ExportFault],
    /// What the client says about its run, if it wrote that.
    pub report: Option<&'a ClientReport>,
    /// The warmup node's own requests.
    pub warmup: &'a Warmup,
    /// Ids of other requests of ours, such as readiness probes.
    pub probes: &'a [String],
    /// The server's records, where the engine keeps any.
    pub server: Option<&'a [ServerRecord]>,
}

/// Accounts for everything by identity. The order of the inputs, but for the
/// selection's, does not change the result.
#[must_use]
pub fn account(inputs: &Inputs<'_>) -> Accounting {
    let requests = Requests::of(inputs.sent);
    let matches = matching::assign(inputs.planned, &requests.unique);
    let mut turns: Vec<TurnAccount> = inputs.planned.iter().map(unsent).collect();
    let mut unmatched = Vec::new();
    for (sent, found) in requests.unique.iter().zip(&matches) {
        let sending = sending(sent, *found, inputs.planned);
        match found {
            Some(found) => turns[found.turn].sendings.push(sending),
            None => unmatched.push(sending),
        }
    }
    let mut faults = inputs.faults.to_vec();
    faults.sort_by(|a, b| (&a.file, a.line, a.kind).cmp(&(&b.file, b.line, b.kind)));
    let mut accounting = Accounting {
        schema_version: SCHEMA_VERSION,
        balanced: false,
        imbalances: Vec::new(),
        totals: totals(&requests, &turns, &unmatched),
        categories: categories(&turns),
        shared_texts: shared_texts(&turns),
        turns,
        unmatched,
        conflicts: requests.conflicts(),
        faults,
        report: inputs.report.cloned(),
        warmup: warmup(inputs.warmup, &requests.unique),
        placeholder_rows: inputs.placeholder_rows,
        server: inputs.server.map(|records| server::join(records, &requests.unique, inputs)),
    };
    accounting.imbalances = accounting.check_sums();
    accounting.balanced = accounting.imbalances.is_empty();
    accounting
}

/// The client's requests, each id once, by time.
struct Requests<'a> {
    unique: Vec<&'a Sent>,
    /// Lines of each, summed over all entries of its id.
    lines: Vec<(u64, u64)>,
    /// Ids that came in several entries that differ.
    differing: Vec<&'a str>,
}

impl<'a> Requests<'a> {
    fn of(sent: &'a [Sent]) -> Self {
        let mut ordered: Vec<&Sent> = sent.iter().collect();
        ordered.sort_by(|a, b| {
            (a.start_ns, &a.request_id, a.end_ns).cmp(&(b.start_ns, &b.request_id, b.end_ns))
        });
        let mut requests = Self { unique: Vec::new(), lines: Vec::new(), differing: Vec::new() };
        let mut place: HashMap<&str, usize> = HashMap::new();
        for sent in ordered {
            let at = *place.entry(&sent.request_id).or_insert(requests.unique.len());
            if at == requests.unique.len() {
                requests.unique.push(sent);
                requests.lines.push((0, 0));
            } else if requests.unique[at] != sent {
                requests.differing.push(&sent.request_id);
            }
            requests.lines[at].0 += u64::from(sent.lines.client);
            requests.lines[at].1 += u64::from(sent.lines.raw);
        }
        requests
    }

    fn conflicts(&self) -> Vec<String> {
        let differing = self.differing.iter().map(|id| format!("request {id}: its records differ"));
        let mut conflicts: Vec<String> = differing
            .chain(self.unique.iter().flat_map(|sent| {
                sent.conflicts.iter().map(|conflict| format!("request {}: {conflict}", sent.request_id))
            }))
            .collect();
        conflicts.sort();
        conflicts.dedup();
        conflicts
    }
}

fn unsent(planned: &Planned) -> TurnAccount {
    TurnAccount {
        row: planned.row.clone(),
        turn: planned.turn,
        category: planned.category.clone(),
        text_digest: planned.text_digest,
        sendings: Vec::new(),
    }
}

fn sending(sent: &Sent, found: Option<Match>, planned: &[Planned]) -> Sending {
    Sending {
        request_id: sent.request_id.clone(),
        phase: sent.phase,
        matched_by: found.map(|found| found.by),
        text_digest: sent.text_digest,
        text_matches: found.is_some_and(|found| sent.text_digest == Some(planned[found.turn].text_digest)),
        outcome: sent.outcome(),
    }
}

fn totals(requests: &Requests<'_>, turns: &[TurnAccount], unmatched: &[Sending]) -> Totals {
    let mut totals = Totals {
        planned: turns.len() as u64,
        requests: requests.unique.len() as u64,
        unmatched: unmatched.iter().filter(|sending| sending.phase == Phase::Profiling).count() as u64,
        ..Totals::default()
    };
    for turn in turns {
        let times = turn.measured().count();
        totals.matched += times as u64;
        *match times {
            0 => &mut totals.missing,
            1 => &mut totals.sent_once,
            _ => &mut totals.repeated,
        } += 1;
    }
    for (sent, (client, raw)) in requests.unique.iter().zip(&requests.lines) {
        totals.client_lines += client;
        totals.raw_lines += raw;
        totals.duplicate_client_lines += client.saturating_sub(1);
        totals.duplicate_raw_lines += raw.saturating_sub(1);
        totals.without_client_line += u64::from(*client == 0);
        totals.without_raw_line += u64::from(*raw == 0);
        totals.placeholders_sent += u64::from(sent.placeholder);
        totals.count(sent);
    }
    totals
}

impl Totals {
    fn count(&mut self, sent: &Sent) {
        match sent.phase {
            Phase::Warmup => self.warmup_phase += 1,
            Phase::Other => self.other_phase += 1,
            Phase::Profiling => {
                self.profiling += 1;
                match sent.outcome() {
                    Outcome::Answered => self.answered += 1,
                    Outcome::Empty => self.empty += 1,
                    Outcome::Cancelled => self.cancelled += 1,
                    Outcome::Unrecorded => self.unrecorded += 1,
                    Outcome::Failed(kind) => {
                        self.failed += 1;
                        *self.failures.entry(kind).or_default() += 1;
                    }
                }
            }
        }
    }
}

fn categories(turns: &[TurnAccount]) -> IndexMap<String, CategoryAccount> {
    let mut categories: IndexMap<String, CategoryAccount> = IndexMap::new();
    for turn in turns {
        let category = categories.entry(turn.category.clone()).or_default();
        category.planned += 1;
        *match turn.measured().count() {
            0 => &mut category.missing,
            1 => &mut category.sent_once,
            _ => &mut category.repeated,
        } += 1;
        let answered = turn.measured().filter(|sending| sending.outcome == Outcome::Answered);
        category.answered += answered.count() as u64;
    }
    categories
}

fn shared_texts(turns: &[TurnAccount]) -> Vec<SharedText> {
    let mut by_text: IndexMap<(Digest, u32), Vec<&TurnAccount>> = IndexMap::new();
    for turn in turns {
        by_text.entry((turn.text_digest, turn.turn)).or_default().push(turn);
    }
    let told_by_text =
        |turn: &&TurnAccount| turn.sendings.iter().any(|sending| sending.matched_by == Some(MatchedBy::Text));
    by_text
        .into_iter()
        .filter(|(_, turns)| turns.len() > 1 && turns.iter().any(told_by_text))
        .map(|((text_digest, _), turns)| SharedText {
            text_digest,
            turns: turns.iter().map(|turn| format!("{} turn {}", turn.row, turn.turn)).collect(),
        })
        .collect()
}

fn warmup(warmup: &Warmup, sent: &[&Sent]) -> WarmupAccount {
    let mut times: BTreeMap<&str, (u32, bool)> = BTreeMap::new();
    for request in &warmup.requests {
        let entry = times.entry(&request.request_id).or_insert((0, true));
        *entry = (entry.0 + 1, entry.1 && answered(request));
    }
    let owned = |id: &str| id.to_owned();
    WarmupAccount {
        configured: warmup.configured as u64,
        observed: times.len() as u64,
        answered: times.values().filter(|(_, answered)| *answered).count() as u64,
        duplicates: times.iter().filter(|(_, (n, _))| *n > 1).map(|(id, _)| owned(id)).collect(),
        also_measured: sent
            .iter()
            .filter(|sent| times.contains_key(sent.request_id.as_str()))
            .map(|sent| sent.request_id.clone())
            .collect(),
    }
}

fn answered(request: &WarmupRequest) -> bool {
    (200..300).contains(&request.status) && request.answer_characters > 0
}

#[cfg(test)]
mod tests;
