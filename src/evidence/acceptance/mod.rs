//! Acceptance of drafted tokens, with its provenance and never a guess.
//!
//! Each quantity has one definition: see [`Quantities`]. Sums come first and
//! one division last. Values of different provenance stand side by side and
//! are never averaged.

mod cause;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use cause::NoAcceptance;

use super::correlation::Row;
use super::outcome::Outcome;
use super::request::Phase;
use super::{Measured, Mode};

/// Version of the [`Acceptance`] document.
pub const SCHEMA_VERSION: u32 = 1;

/// Where figures come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Provenance {
    /// The engine's own answer to each request.
    PerRequest,
    /// Counters of the engine, read before and after the run.
    ServerCounters,
}

/// Counters of the engine at one moment, over all requests so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counters {
    /// Verify steps of the target: how often a draft was checked.
    pub drafts: u64,
    /// Draft tokens proposed.
    pub draft_tokens: u64,
    /// Draft tokens accepted.
    pub accepted_tokens: u64,
}

/// Counters right before the first measured request and after the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Scrape {
    /// Before the load, after warmup.
    pub before: Counters,
    /// After the load.
    pub after: Counters,
}

/// Acceptance of one group of requests from one source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Quantities {
    /// The source of every value here.
    pub provenance: Provenance,
    /// Answered requests in the group.
    pub requests: u64,
    /// Requests for which the source says that tokens were drafted; none
    /// where it does not tell requests apart.
    pub requests_with_drafts: Option<u64>,
    /// Draft tokens accepted.
    pub accepted_tokens: Measured<u64>,
    /// Draft tokens proposed.
    pub draft_tokens: Measured<u64>,
    /// Verify steps.
    pub verify_steps: Measured<u64>,
    /// 1 + accepted draft tokens / verify steps.
    pub accept_length: Measured<f64>,
    /// Accepted draft tokens / proposed draft tokens.
    pub accept_rate: Measured<f64>,
    /// Tokens generated / (tokens generated − accepted draft tokens). It is
    /// near the acceptance length but another quantity: steps that drafted
    /// nothing count too.
    pub tokens_per_decode_step: Measured<f64>,
}

/// Acceptance from per-request records, by category.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ByRequest {
    /// All requests together: token-weighted.
    pub pooled: Quantities,
    /// The macro-average of the categories' values.
    pub overall: Overall,
    /// By category, in the selection's order.
    pub categories: IndexMap<String, Quantities>,
}

/// Arithmetic means of the categories' unrounded values, each category
/// weighing the same. Unavailable where any category's value is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Overall {
    /// Mean of the acceptance lengths.
    pub accept_length: Measured<f64>,
    /// Mean of the acceptance rates.
    pub accept_rate: Measured<f64>,
    /// Mean of the tokens per decode step.
    pub tokens_per_decode_step: Measured<f64>,
}

/// One count by both sources.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CrossCheck {
    /// Which count.
    pub quantity: String,
    /// Summed over the measured requests.
    pub per_request: u64,
    /// By the server's counters.
    pub server_counters: u64,
    /// Whether they are equal.
    pub agree: bool,
}

/// The acceptance of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Acceptance {
    /// Version of this document's form.
    pub schema_version: u32,
    /// The mode that was requested.
    pub mode: Mode,
    /// From the engine's answers.
    pub per_request: Measured<ByRequest>,
    /// Why there is none, as a word that a program can read.
    pub per_request_cause: Option<NoAcceptance>,
    /// From the engine's counters.
    pub server: Measured<Quantities>,
    /// Why there is none, as a word that a program can read.
    pub server_cause: Option<NoAcceptance>,
    /// Both sources compared, where both exist.
    pub cross_check: Measured<Vec<CrossCheck>>,
    /// Where the mode and what was observed contradict each other.
    pub contradictions: Vec<String>,
}

impl Acceptance {
    /// The pooled quantities of the first source that has them: per-request
    /// records before server counters.
    pub fn first(&self) -> Result<&Quantities, NoAcceptance> {
        match (&self.per_request, &self.server) {
            (Measured::Value(by_request), _) => Ok(&by_request.pooled),
            (_, Measured::Value(server)) => Ok(server),
            _ => Err(self.per_request_cause.unwrap_or(NoAcceptance::NoField)),
        }
    }
}

/// What acceptance is computed from.
#[derive(Debug, Clone, Copy)]
pub struct Inputs<'a> {
    /// The mode that was requested.
    pub mode: Mode,
    /// The correlated rows of the run.
    pub rows: &'a [Row],
    /// Why the engine's answers are known to carry no acceptance, where the
    /// caller knows: a capability, a flag, a proxy, a kind of export.
    pub no_field_because: Option<NoAcceptance>,
    /// The counters, or why there are none.
    pub scrape: Result<Scrape, NoAcceptance>,
}

/// Computes the acceptance of a run, or says why there is none.
#[must_use]
pub fn acceptance(inputs: &Inputs<'_>) -> Acceptance {
    let rows: Vec<&Row> = inputs
        .rows
        .iter()
        .filter(|row| row.phase == Phase::Profiling && row.outcome == Outcome::Answered)
        .collect();
    let per_request = from_requests(inputs, &rows);
    let server = from_counters(inputs, rows.len() as u64);
    let cross_check = cross_check(per_request.as_ref().ok(), server.as_ref().ok());
    Acceptance {
        schema_version: SCHEMA_VERSION,
        mode: inputs.mode,
        contradictions: contradictions(inputs.mode, per_request.is_ok(), server.is_ok()),
        per_request_cause: per_request.as_ref().err().copied(),
        per_request: measured(per_request),
        server_cause: server.as_ref().err().copied(),
        server: measured(server),
        cross_check,
    }
}

fn measured<T>(result: Result<T, NoAcceptance>) -> Measured<T> {
    result.map_or_else(|cause| Measured::unavailable(cause.to_string()), Measured::Value)
}

/// Figures in an ordinary run are shown, since they were measured, and said
/// to contradict the mode.
fn contradictions(mode: Mode, per_request: bool, server: bool) -> Vec<String> {
    let sources = [
        (per_request, "the engine's answers report drafted tokens"),
        (server, "the engine's counters report verify steps"),
    ];
    let found = sources.iter().filter(|(found, _)| *found && mode == Mode::Ordinary);
    found.map(|(_, what)| format!("speculation was to be off, and {what}")).collect()
}

fn from_requests(inputs: &Inputs<'_>, rows: &[&Row]) -> Result<ByRequest, NoAcceptance> {
    let pooled = Sums::of(rows);
    if pooled.with_drafts == 0 {
        return Err(why_no_request_has_drafts(inputs, rows, &pooled));
    }
    let mut groups: IndexMap<&str, Vec<&Row>> = IndexMap::new();
    for row in inputs.rows {
        groups.entry(&row.category).or_default();
    }
    for row in rows {
        groups.entry(&row.category).or_default().push(row);
    }
    let categories: IndexMap<String, Quantities> =
        groups.iter().map(|(category, rows)| ((*category).to_owned(), Sums::of(rows).quantities())).collect();
    Ok(ByRequest { pooled: pooled.quantities(), overall: Overall::of(&categories), categories })
}

fn why_no_request_has_drafts(inputs: &Inputs<'_>, rows: &[&Row], sums: &Sums) -> NoAcceptance {
    if inputs.mode == Mode::Ordinary {
        NoAcceptance::SpeculationOff
    } else if rows.is_empty() {
        NoAcceptance::NothingAnswered
    } else if let Some(cause) = inputs.no_field_because {
        cause
    } else if rows.iter().all(|row| row.choices.is_some_and(|n| n > 1)) {
        NoAcceptance::SeveralChoices
    } else if sums.reporting == 0 {
        NoAcceptance::NoField
    } else {
        NoAcceptance::NoVerifySteps
    }
}

/// Sums over the requests of a group.
#[derive(Debug, Default)]
struct Sums {
    requests: u64,
    /// Requests whose answer carried fields of the engine.
    reporting: u64,
    with_drafts: u64,
    accepted: u64,
    drafted: u64,
    predicted: Option<u64>,
    /// None as soon as one request with drafts does not count them.
    steps: Option<u64>,
}

impl Sums {
    fn of(rows: &[&Row]) -> Self {
        let mut sums =
            Self { requests: rows.len() as u64, predicted: Some(0), steps: Some(0), ..Self::default() };
        for fields in rows.iter().filter_map(|row| row.engine_fields.as_ref()) {
            sums.reporting += 1;
            sums.predicted = sums.predicted.zip(fields.predicted_tokens).map(|(a, b)| a + b);
            if let (Some(drafted), Some(accepted)) = (fields.draft_tokens, fields.accepted_tokens) {
                sums.with_drafts += u64::from(drafted > 0);
                sums.drafted += drafted;
                sums.accepted += accepted;
                sums.steps = sums.steps.zip(fields.verify_steps).map(|(a, b)| a + b);
            }
        }
        sums
    }

    fn quantities(&self) -> Quantities {
        let cause = match self {
            Self { requests: 0, .. } => Some(NoAcceptance::NothingAnswered),
            Self { reporting: 0, .. } => Some(NoAcceptance::NoField),
            Self { with_drafts: 0, .. } => Some(NoAcceptance::NoVerifySteps),
            _ => None,
        };
        let counted = |count: Option<u64>, otherwise| match cause {
            Some(cause) => Err(cause),
            None => count.ok_or(otherwise),
        };
        let steps = counted(self.steps, NoAcceptance::StepsNotReported);
        let drafted = counted(Some(self.drafted), NoAcceptance::NoField);
        let plain_steps =
            counted(self.predicted.and_then(|n| n.checked_sub(self.accepted)), NoAcceptance::NoField);
        Quantities {
            provenance: Provenance::PerRequest,
            requests: self.requests,
            requests_with_drafts: Some(self.with_drafts),
            accepted_tokens: measured(counted(Some(self.accepted), NoAcceptance::NoField)),
            draft_tokens: measured(drafted),
            verify_steps: measured(steps),
            accept_length: measured(steps.and_then(|steps| accept_length(self.accepted, steps))),
            accept_rate: measured(drafted.and_then(|drafted| ratio(self.accepted, drafted))),
            tokens_per_decode_step: measured(
                plain_steps.and_then(|steps| ratio(steps + self.accepted, steps)),
            ),
        }
    }
}

fn accept_length(accepted: u64, steps: u64) -> Result<f64, NoAcceptance> {
    ratio(accepted, steps).map(|per_step| 1.0 + per_step)
}

/// One division, after all sums; nothing was verified where the divisor is 0.
#[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
fn ratio(part: u64, whole: u64) -> Result<f64, NoAcceptance> {
    if whole == 0 { Err(NoAcceptance::NoVerifySteps) } else { Ok(part as f64 / whole as f64) }
}

impl Overall {
    fn of(categories: &IndexMap<String, Quantities>) -> Self {
        let mean = |part: fn(&Quantities) -> &Measured<f64>| macro_average(categories, part);
        Self {
            accept_length: mean(|cell| &cell.accept_length),
            accept_rate: mean(|cell| &cell.accept_rate),
            tokens_per_decode_step: mean(|cell| &cell.tokens_per_decode_step),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "there are few categories")]
fn macro_average(
    categories: &IndexMap<String, Quantities>,
    part: fn(&Quantities) -> &Measured<f64>,
) -> Measured<f64> {
    let mut sum = 0.0;
    for (category, cell) in categories {
        match part(cell) {
            Measured::Value(value) => sum += value,
            Measured::Unavailable(reason) => {
                return Measured::unavailable(format!("category {category}: {reason}"));
            }
        }
    }
    Measured::Value(sum / categories.len() as f64)
}

fn from_counters(inputs: &Inputs<'_>, requests: u64) -> Result<Quantities, NoAcceptance> {
    let off = |cause| if inputs.mode == Mode::Ordinary { NoAcceptance::SpeculationOff } else { cause };
    let Scrape { before, after } = inputs.scrape.map_err(off)?;
    let grown = |part: fn(&Counters) -> u64| {
        part(&after).checked_sub(part(&before)).ok_or(NoAcceptance::CountersWentBack)
    };
    let steps = grown(|counters| counters.drafts)?;
    let drafted = grown(|counters| counters.draft_tokens)?;
    let accepted = grown(|counters| counters.accepted_tokens)?;
    if steps == 0 && drafted == 0 {
        return Err(off(NoAcceptance::NoVerifySteps));
    }
    Ok(Quantities {
        provenance: Provenance::ServerCounters,
        requests,
        requests_with_drafts: None,
        accepted_tokens: Measured::Value(accepted),
        draft_tokens: Measured::Value(drafted),
        verify_steps: Measured::Value(steps),
        accept_length: measured(accept_length(accepted, steps)),
        accept_rate: measured(ratio(accepted, drafted)),
        tokens_per_decode_step: Measured::unavailable("the counters do not count generated tokens"),
    })
}

fn cross_check(per_request: Option<&ByRequest>, server: Option<&Quantities>) -> Measured<Vec<CrossCheck>> {
    let (Some(by_request), Some(server)) = (per_request, server) else {
        return Measured::unavailable("it takes per-request records and server counters");
    };
    let pooled = &by_request.pooled;
    let pairs = [
        ("accepted_tokens", &pooled.accepted_tokens, &server.accepted_tokens),
        ("draft_tokens", &pooled.draft_tokens, &server.draft_tokens),
        ("verify_steps", &pooled.verify_steps, &server.verify_steps),
    ];
    let both = pairs.into_iter().filter_map(|(quantity, ours, theirs)| {
        let (ours, theirs) = (*ours.value()?, *theirs.value()?);
        Some(CrossCheck {
            quantity: quantity.to_owned(),
            per_request: ours,
            server_counters: theirs,
            agree: ours == theirs,
        })
    });
    Measured::Value(both.collect())
}

#[cfg(test)]
mod tests;
