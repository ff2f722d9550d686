//! Correlation: each planned turn beside what was sent and what came back.

use std::collections::{BTreeSet, HashMap};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Mode;
use super::acceptance::{self, Acceptance, NoAcceptance, Scrape};
use super::accounting::{self, Accounting, Sending, TurnAccount};
use super::outcome::Outcome;
use super::request::{ClientTimes, EngineFields, Phase, Sent, ServerRecord, TokenCount};
use super::timing::{self, EngineTimes, Timings};
use crate::value::Digest;

/// Version of the [`Correlation`] document.
pub const SCHEMA_VERSION: u32 = 1;

/// One time that a planned turn was sent, with its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// The row's id in the corpus.
    pub row: String,
    /// The row's category.
    pub category: String,
    /// The turn within the row, from 0.
    pub turn: u32,
    /// The request's id.
    pub request_id: String,
    /// The client's phase.
    pub phase: Phase,
    /// How it ended.
    pub outcome: Outcome,
    /// Digest of the last user message as sent.
    pub sent_text_digest: Option<Digest>,
    /// Digest of the whole body as sent: messages and settings.
    pub payload_digest: Option<Digest>,
    /// That text is the pinned text.
    pub matches_pinned: bool,
    /// What came back, also of a failed or cut answer.
    pub output_text: Option<String>,
    /// Digest of the output text.
    pub output_digest: Option<Digest>,
    /// Why generation ended, in the engine's word.
    pub finish_reason: Option<String>,
    /// How many choices were asked for; none where not stated.
    pub choices: Option<u32>,
    /// Tokens of the prompt.
    pub prompt_tokens: Option<TokenCount>,
    /// Tokens of the output.
    pub output_tokens: Option<TokenCount>,
    /// Wall clock when it was sent, in nanoseconds since 1970.
    pub start_ns: i64,
    /// Wall clock when it ended, in nanoseconds since 1970.
    pub end_ns: i64,
    /// The client's times.
    pub client: ClientTimes,
    /// The engine's times, one entry for each scope.
    pub engine: Vec<EngineTimes>,
    /// What the engine said in its answer.
    pub engine_fields: Option<EngineFields>,
}

/// A correlated run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Correlation {
    /// Version of this document's form.
    pub schema_version: u32,
    /// The mode that was requested.
    pub mode: Mode,
    /// Digest of the pinned selection.
    pub selection_digest: Digest,
    /// Every planned turn and request accounted for.
    pub accounting: Accounting,
    /// Each planned turn as often as it was sent, in the selection's order.
    pub rows: Vec<Row>,
    /// Times.
    pub timings: Timings,
    /// Acceptance.
    pub acceptance: Acceptance,
    /// The settings that requests carried beside their messages; one entry if
    /// all were asked alike.
    pub request_settings: Vec<Value>,
    /// What a reader must know to read the figures rightly.
    pub warnings: Vec<String>,
}

/// What a correlation is built from.
#[derive(Debug, Clone, Copy)]
pub struct Inputs<'a> {
    /// The mode that was requested.
    pub mode: Mode,
    /// Digest of the pinned selection.
    pub selection_digest: Digest,
    /// What was planned and observed.
    pub accounting: accounting::Inputs<'a>,
    /// The distinct settings that requests carried.
    pub request_settings: &'a [Value],
    /// Why answers are known to carry no acceptance, where the caller knows.
    pub no_field_because: Option<NoAcceptance>,
    /// The engine's counters, or why there are none.
    pub scrape: Result<Scrape, NoAcceptance>,
}

/// Joins a run by identity and computes all that follows from it.
#[must_use]
pub fn correlate(inputs: &Inputs<'_>) -> Correlation {
    let accounting = accounting::account(&inputs.accounting);
    let rows = rows(&accounting, &inputs.accounting);
    let acceptance = acceptance::acceptance(&acceptance::Inputs {
        mode: inputs.mode,
        rows: &rows,
        no_field_because: inputs.no_field_because,
        scrape: inputs.scrape,
    });
    Correlation {
        schema_version: SCHEMA_VERSION,
        mode: inputs.mode,
        selection_digest: inputs.selection_digest,
        timings: timing::timings(&rows),
        warnings: warnings(&accounting, &rows, &acceptance, inputs.request_settings),
        accounting,
        rows,
        acceptance,
        request_settings: inputs.request_settings.to_vec(),
    }
}

fn rows(accounting: &Accounting, inputs: &accounting::Inputs<'_>) -> Vec<Row> {
    let mut sent: HashMap<&str, &Sent> = HashMap::new();
    for request in inputs.sent {
        sent.entry(&request.request_id).or_insert(request);
    }
    let mut server: HashMap<&str, &ServerRecord> = HashMap::new();
    for record in inputs.server.unwrap_or_default() {
        server.entry(&record.request_id).or_insert(record);
    }
    let sendings = accounting.turns.iter().flat_map(|turn| turn.sendings.iter().map(move |s| (turn, s)));
    sendings
        .filter_map(|(turn, sending)| {
            let id = sending.request_id.as_str();
            Some(row(turn, sending, sent.get(id)?, server.get(id).copied()))
        })
        .collect()
}

fn row(turn: &TurnAccount, sending: &Sending, sent: &Sent, record: Option<&ServerRecord>) -> Row {
    let by_answer = sent.engine.as_ref().map(answer_times);
    let by_record = record.and_then(record_times);
    Row {
        row: turn.row.clone(),
        category: turn.category.clone(),
        turn: turn.turn,
        request_id: sending.request_id.clone(),
        phase: sending.phase,
        outcome: sending.outcome,
        sent_text_digest: sending.text_digest,
        payload_digest: sent.payload_digest,
        matches_pinned: sending.text_matches,
        output_digest: sent.output_text.as_ref().map(Digest::of),
        output_text: sent.output_text.clone(),
        finish_reason: sent.finish_reason.clone(),
        choices: sent.choices,
        prompt_tokens: sent.prompt_tokens,
        output_tokens: sent.output_tokens,
        start_ns: sent.start_ns,
        end_ns: sent.end_ns,
        client: sent.client,
        engine: by_answer.into_iter().chain(by_record).collect(),
        engine_fields: sent.engine.clone(),
    }
}

fn answer_times(fields: &EngineFields) -> EngineTimes {
    EngineTimes {
        scope: fields.scope.clone(),
        call_ms: None,
        prompt_ms: fields.prompt_ms,
        decode_ms: fields.predicted_ms,
        decode_tokens: fields.predicted_tokens,
        queue_ms: None,
    }
}

/// The times of a server's record; none without a scope that says what they
/// cover.
fn record_times(record: &ServerRecord) -> Option<EngineTimes> {
    Some(EngineTimes {
        scope: record.timing_scope.clone()?,
        call_ms: record.model_call_ms,
        prompt_ms: record.prefill_ms,
        decode_ms: record.decode_ms,
        decode_tokens: record.output_tokens,
        queue_ms: record.queue_ms,
    })
}

fn warnings(
    accounting: &Accounting,
    rows: &[Row],
    acceptance: &Acceptance,
    settings: &[Value],
) -> Vec<String> {
    let measured = || rows.iter().filter(|row| row.phase == Phase::Profiling);
    let count = |wanted: fn(&Row) -> bool| measured().filter(|row| wanted(row)).count();
    let mut warnings = acceptance.contradictions.clone();
    let mut warn = |number: usize, words: &str| {
        if number > 0 {
            warnings.push(format!("{number} {words}"));
        }
    };
    warn(
        count(|row| row.finish_reason.as_deref() == Some("length")),
        "answers ended at the token limit and not by themselves",
    );
    warn(
        count(|row| row.engine_fields.as_ref().and_then(|f| f.cached_tokens).is_some_and(|n| n > 0)),
        "requests took part of their prompt from the engine's cache, which shortens the time to first token",
    );
    warn(
        accounting.shared_texts.len(),
        "texts are shared by several planned turns; their requests are told apart by time only",
    );
    let scopes: BTreeSet<&str> =
        measured().flat_map(|row| &row.engine).map(|times| times.scope.as_str()).collect();
    if scopes.len() > 1 {
        let scopes: Vec<&str> = scopes.into_iter().collect();
        warnings.push(format!("the engine's times have several scopes: {}", scopes.join(", ")));
    }
    if settings.len() > 1 {
        warnings.push(format!("requests carried {} different sets of settings", settings.len()));
    }
    if let Some(checks) = acceptance.cross_check.value() {
        warnings.extend(checks.iter().filter(|check| !check.agree).map(|check| {
            format!(
                "{}: {} by request, {} by the server's counters: requests outside the measured ones, \
                 another scrape window, or failed requests that drafted",
                check.quantity, check.per_request, check.server_counters
            )
        }));
    }
    warnings
}

#[cfg(test)]
mod tests;
