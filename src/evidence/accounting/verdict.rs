//! Whether the sums add up, and whether the run did what was planned.

use std::collections::HashSet;

use super::{Accounting, CategoryAccount, Sending, TurnAccount};
use crate::evidence::outcome::Outcome;
use crate::evidence::request::Phase;

/// How many ids or rows a sentence names before it says "and n more".
const NAMED: usize = 5;

impl Accounting {
    /// Measured requests that did not get a complete answer with text.
    #[must_use]
    pub const fn unanswered(&self) -> u64 {
        let totals = &self.totals;
        totals.failed + totals.empty + totals.cancelled + totals.unrecorded
    }

    /// The share of measured requests without a complete answer, from 0 to 1;
    /// none if nothing was measured.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    pub fn error_rate(&self) -> Option<f64> {
        let measured = self.totals.profiling;
        (measured > 0).then(|| self.unanswered() as f64 / measured as f64)
    }

    /// Holds when every planned turn was sent exactly once with its pinned
    /// text and everything else is accounted for; else says, in sentences,
    /// what is not. Requests that failed are accounted for: whether there are
    /// too many is another rule's question.
    pub fn complete(&self) -> Result<(), Vec<String>> {
        let mut problems = self.check_sums();
        self.check_plan(&mut problems);
        self.check_texts(&mut problems);
        self.check_client(&mut problems);
        self.check_report(&mut problems);
        self.check_warmup(&mut problems);
        self.check_server(&mut problems);
        if problems.is_empty() { Ok(()) } else { Err(problems) }
    }

    /// Recomputes every sum from the parts of this document and names those
    /// that do not add up.
    #[must_use]
    pub fn check_sums(&self) -> Vec<String> {
        let totals = &self.totals;
        let mut sums = Sums(Vec::new());
        let turns = self.turns.len() as u64;
        sums.equal("planned turns", totals.planned, "turns listed", turns);
        sums.equal(
            "planned turns",
            totals.planned,
            "sent once + missing + repeated",
            totals.sent_once + totals.missing + totals.repeated,
        );
        let times = |wanted: fn(usize) -> bool| {
            self.turns.iter().filter(|turn| wanted(turn.measured().count())).count() as u64
        };
        sums.equal("turns sent once", totals.sent_once, "such turns listed", times(|n| n == 1));
        sums.equal("missing turns", totals.missing, "such turns listed", times(|n| n == 0));
        sums.equal("repeated turns", totals.repeated, "such turns listed", times(|n| n > 1));
        let by_category = |part: fn(&CategoryAccount) -> u64| self.categories.values().map(part).sum();
        sums.equal("planned turns", totals.planned, "those of all categories", by_category(|c| c.planned));
        sums.equal(
            "turns sent once",
            totals.sent_once,
            "those of all categories",
            by_category(|c| c.sent_once),
        );
        sums.equal("missing turns", totals.missing, "those of all categories", by_category(|c| c.missing));
        sums.equal("repeated turns", totals.repeated, "those of all categories", by_category(|c| c.repeated));
        self.check_request_sums(&mut sums);
        self.check_outcome_sums(&mut sums);
        self.check_server_sums(&mut sums);
        sums.0
    }

    fn sendings(&self) -> impl Iterator<Item = &Sending> {
        self.turns.iter().flat_map(|turn| &turn.sendings).chain(&self.unmatched)
    }

    fn check_request_sums(&self, sums: &mut Sums) {
        let totals = &self.totals;
        sums.equal("requests", totals.requests, "requests listed", self.sendings().count() as u64);
        let ids: HashSet<&str> = self.sendings().map(|sending| sending.request_id.as_str()).collect();
        sums.equal("requests", totals.requests, "different ids listed", ids.len() as u64);
        sums.equal(
            "requests",
            totals.requests,
            "warmup phase + measured + other phases",
            totals.warmup_phase + totals.profiling + totals.other_phase,
        );
        sums.equal(
            "measured requests",
            totals.profiling,
            "matched + unmatched",
            totals.matched + totals.unmatched,
        );
        let matched: usize = self.turns.iter().map(|turn| turn.measured().count()).sum();
        sums.equal("matched requests", totals.matched, "times that turns were sent", matched as u64);
        sums.equal(
            "lines of the per-request export",
            totals.client_lines,
            "requests in it + duplicates",
            totals.requests.saturating_sub(totals.without_client_line) + totals.duplicate_client_lines,
        );
        sums.equal(
            "lines of the raw export",
            totals.raw_lines,
            "requests in it + duplicates",
            totals.requests.saturating_sub(totals.without_raw_line) + totals.duplicate_raw_lines,
        );
        if let Some(report) = &self.report {
            sums.equal(
                "measured requests in the export",
                totals.profiling,
                "requests that the client counted",
                report.valid_requests + report.failed_requests,
            );
        }
    }

    fn check_outcome_sums(&self, sums: &mut Sums) {
        let totals = &self.totals;
        let count = |wanted: &dyn Fn(Outcome) -> bool| {
            let measured = self.sendings().filter(|sending| sending.phase == Phase::Profiling);
            measured.filter(|sending| wanted(sending.outcome)).count() as u64
        };
        sums.equal(
            "measured requests",
            totals.profiling,
            "answered + empty + cancelled + unrecorded + failed",
            totals.answered + self.unanswered(),
        );
        sums.equal("failed requests", totals.failed, "those of all kinds", totals.failures.values().sum());
        for (what, total, outcome) in [
            ("answered requests", totals.answered, Outcome::Answered),
            ("empty answers", totals.empty, Outcome::Empty),
            ("cancelled requests", totals.cancelled, Outcome::Cancelled),
            ("unrecorded answers", totals.unrecorded, Outcome::Unrecorded),
        ] {
            sums.equal(what, total, "those listed", count(&|found| found == outcome));
        }
        let failed = count(&|found| matches!(found, Outcome::Failed(_)));
        sums.equal("failed requests", totals.failed, "those listed", failed);
        for (kind, total) in &totals.failures {
            let listed = count(&|found| found == Outcome::Failed(*kind));
            sums.equal(&format!("failures ({kind})"), *total, "those listed", listed);
        }
    }

    fn check_server_sums(&self, sums: &mut Sums) {
        let Some(server) = &self.server else { return };
        sums.equal(
            "server records",
            server.records,
            "requests + duplicates",
            server.requests + server.duplicates,
        );
        sums.equal(
            "requests in the server's records",
            server.requests,
            "client + warmup + probes + unmatched",
            server.of_client + server.of_warmup + server.of_probes + server.unmatched.len() as u64,
        );
        sums.equal(
            "requests of the client",
            self.totals.requests,
            "those with and without a server record",
            server.of_client + server.client_without_record.len() as u64,
        );
    }

    fn check_plan(&self, problems: &mut Vec<String>) {
        if self.turns.is_empty() {
            problems.push("no turn was planned, so nothing can be complete".to_owned());
        }
        let mut seen = HashSet::new();
        let twice = self.turns.iter().filter(|turn| !seen.insert((&turn.row, turn.turn)));
        tell(problems, "planned turns stand twice in the selection", twice.map(name));
        let by_times = |wanted: fn(usize) -> bool| {
            self.turns.iter().filter(move |turn| wanted(turn.measured().count())).map(name)
        };
        tell(problems, "planned turns were never sent", by_times(|n| n == 0));
        tell(problems, "planned turns were sent more than once", by_times(|n| n > 1));
        count(problems, self.placeholder_rows, "rows of the selection hold placeholder text");
        count(problems, self.totals.placeholders_sent, "requests held placeholder text");
    }

    fn check_texts(&self, problems: &mut Vec<String>) {
        let matched = || self.turns.iter().flat_map(|turn| &turn.sendings);
        let unknown = matched().filter(|sending| sending.text_digest.is_none()).map(id);
        tell(problems, "requests have no record of the text that was sent", unknown);
        let other = matched().filter(|sending| sending.text_digest.is_some() && !sending.text_matches);
        tell(problems, "requests carried another text than the pinned one", other.map(id));
    }

    fn check_client(&self, problems: &mut Vec<String>) {
        let totals = &self.totals;
        tell(problems, "requests are no planned turn", self.unmatched.iter().map(id));
        count(
            problems,
            totals.warmup_phase,
            "requests are of the client's own warmup phase, which must send none",
        );
        count(problems, totals.other_phase, "requests are of a phase that is neither warmup nor profiling");
        count(problems, totals.duplicate_client_lines, "lines of the per-request export repeat a request id");
        count(problems, totals.duplicate_raw_lines, "lines of the raw export repeat a request id");
        count(problems, totals.without_client_line, "requests are in the raw export only");
        count(problems, totals.without_raw_line, "requests are not in the raw export");
        count(problems, totals.unrecorded, "requests have no recorded answer");
        problems.extend(self.conflicts.iter().cloned());
        problems.extend(self.faults.iter().map(|fault| format!("the export is not whole: {fault}")));
    }

    fn check_report(&self, problems: &mut Vec<String>) {
        let Some(report) = &self.report else {
            problems.push("the client wrote no report of its run, so it did not end well".to_owned());
            return;
        };
        if report.is_complete != Some(true) {
            problems.push("the client does not say that its run is complete".to_owned());
        }
        if report.was_cancelled != Some(false) {
            problems.push("the client does not say that its run was not cancelled".to_owned());
        }
        if report.partial != Some(false) {
            problems.push("the client does not say that its results are whole".to_owned());
        }
    }

    fn check_warmup(&self, problems: &mut Vec<String>) {
        let warmup = &self.warmup;
        if warmup.observed < warmup.configured {
            problems.push(format!(
                "{} warmup requests were configured and {} were sent",
                warmup.configured, warmup.observed
            ));
        }
        count(problems, warmup.observed.saturating_sub(warmup.answered), "warmup requests got no answer");
        tell(problems, "warmup requests share an id", warmup.duplicates.iter().cloned());
        tell(problems, "warmup requests are among the measured ones", warmup.also_measured.iter().cloned());
    }

    fn check_server(&self, problems: &mut Vec<String>) {
        let Some(server) = &self.server else { return };
        count(problems, server.duplicates, "server records repeat a request id");
        tell(problems, "server records belong to no request of ours", server.unmatched.iter().cloned());
        tell(problems, "requests have no server record", server.client_without_record.iter().cloned());
        tell(problems, "warmup requests have no server record", server.warmup_without_record.iter().cloned());
        problems.extend(server.conflicts.iter().cloned());
    }
}

/// Collects the sums that do not add up.
struct Sums(Vec<String>);

impl Sums {
    fn equal(&mut self, what: &str, total: u64, parts: &str, sum: u64) {
        if total != sum {
            self.0.push(format!("{what}: {total}, but {parts}: {sum}"));
        }
    }
}

fn name(turn: &TurnAccount) -> String {
    format!("{} turn {}", turn.row, turn.turn)
}

fn id(sending: &Sending) -> String {
    sending.request_id.clone()
}

fn count(problems: &mut Vec<String>, number: u64, sentence: &str) {
    if number > 0 {
        problems.push(format!("{number} {sentence}"));
    }
}

fn tell(problems: &mut Vec<String>, sentence: &str, names: impl Iterator<Item = String>) {
    let names: Vec<String> = names.collect();
    if names.is_empty() {
        return;
    }
    let shown = names[..names.len().min(NAMED)].join(", ");
    let rest = match names.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    problems.push(format!("{} {sentence}: {shown}{rest}", names.len()));
}
