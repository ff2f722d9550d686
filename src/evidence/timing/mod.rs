//! Times of the measured requests: the client's and the engine's, never mixed.
//!
//! Only planned turns of the measured phase that were answered count; warmup,
//! failures and unplanned requests do not.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Measured;
use super::correlation::Row;
use super::outcome::Outcome;
use super::request::Phase;

/// Version of the [`Timings`] document.
pub const SCHEMA_VERSION: u32 = 1;

/// How percentiles are taken everywhere: of n sorted values, the one at place
/// `p / 100 × (n − 1)`, counted from 0, interpolated linearly between the two
/// neighbours. It is what `numpy` and AIPerf do by default.
pub const PERCENTILE_METHOD: &str = "linear interpolation at p/100 × (n − 1)";

/// A summary of some values of one unit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Distribution {
    /// How many values there are.
    pub count: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Population standard deviation.
    pub std: f64,
    /// Smallest value.
    pub min: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest value.
    pub max: f64,
    /// Unit of all but the count.
    pub unit: String,
}

impl Distribution {
    /// Summarises values; none if there is no finite one.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    pub fn of(values: impl IntoIterator<Item = f64>, unit: &str) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let count = sorted.len() as f64;
        let mean = sorted.iter().sum::<f64>() / count;
        let variance = sorted.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
        Some(Self {
            count: sorted.len() as u64,
            mean,
            std: variance.sqrt(),
            min,
            p50: percentile(&sorted, 50.0),
            p90: percentile(&sorted, 90.0),
            p95: percentile(&sorted, 95.0),
            p99: percentile(&sorted, 99.0),
            max,
            unit: unit.to_owned(),
        })
    }
}

/// A percentile, from 0 to 100, of values sorted upwards: see
/// [`PERCENTILE_METHOD`]. Of no values it is not a number.
#[must_use]
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a place between 0 and the number of values"
)]
pub fn percentile(sorted: &[f64], p: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let place = (p / 100.0).clamp(0.0, 1.0) * last as f64;
    let low = place as usize;
    let high = (low + 1).min(last);
    (sorted[high] - sorted[low]).mul_add(place - low as f64, sorted[low])
}

/// What the client measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClientColumns {
    /// From sending the request to its last chunk.
    pub end_to_end_ms: Measured<Distribution>,
    /// From sending the request to its first token.
    pub first_token_ms: Measured<Distribution>,
    /// Mean time between tokens of each request.
    pub inter_token_ms: Measured<Distribution>,
}

/// What the engine measured, for one scope.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EngineColumns {
    /// What the times cover, such as `llama_cpp_timings` or
    /// `public_task_call_wall`.
    pub scope: String,
    /// Requests with any time of this scope.
    pub requests: u64,
    /// The whole call.
    pub call_ms: Measured<Distribution>,
    /// The prompt stage.
    pub prompt_ms: Measured<Distribution>,
    /// The decode stage.
    pub decode_ms: Measured<Distribution>,
    /// The decode stage divided by the tokens generated, of each request.
    pub decode_per_token_ms: Measured<Distribution>,
    /// Waiting to be admitted.
    pub queue_ms: Measured<Distribution>,
}

/// The columns of one group of requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Columns {
    /// Answered requests in the group.
    pub requests: u64,
    /// The client's columns.
    pub client: ClientColumns,
    /// The engine's columns, one entry for each scope.
    pub engine: Measured<Vec<EngineColumns>>,
}

/// The stretch of time that the figures are from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Window {
    /// When the first counted request was sent, in nanoseconds since 1970.
    pub start_ns: i64,
    /// When the last counted request ended, in nanoseconds since 1970.
    pub end_ns: i64,
    /// Its length in seconds.
    pub seconds: f64,
    /// Tokens generated in it, by the counts of the rows.
    pub output_tokens: Measured<u64>,
    /// Tokens generated per second, of the run as a whole.
    pub output_tokens_per_second: Measured<f64>,
}

/// All times of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Timings {
    /// Version of this document's form.
    pub schema_version: u32,
    /// How percentiles are taken.
    pub percentile_method: String,
    /// The steady-state window: build, load, start and warmup are outside.
    pub window: Measured<Window>,
    /// All categories together.
    pub total: Columns,
    /// By category, in the selection's order.
    pub categories: IndexMap<String, Columns>,
}

/// What the engine measured for one request, in milliseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EngineTimes {
    /// What the times cover.
    pub scope: String,
    /// The whole call.
    pub call_ms: Option<f64>,
    /// The prompt stage.
    pub prompt_ms: Option<f64>,
    /// The decode stage.
    pub decode_ms: Option<f64>,
    /// Tokens that the decode stage generated.
    pub decode_tokens: Option<u64>,
    /// Waiting to be admitted.
    pub queue_ms: Option<f64>,
}

/// Summarises the times of correlated rows.
#[must_use]
pub fn timings(rows: &[Row]) -> Timings {
    let answered: Vec<&Row> =
        rows.iter().filter(|row| row.phase == Phase::Profiling && row.outcome == Outcome::Answered).collect();
    let mut groups: IndexMap<&str, Vec<&Row>> = IndexMap::new();
    for row in rows {
        groups.entry(&row.category).or_default();
    }
    for row in &answered {
        groups.entry(&row.category).or_default().push(row);
    }
    Timings {
        schema_version: SCHEMA_VERSION,
        percentile_method: PERCENTILE_METHOD.to_owned(),
        window: Measured::or_unavailable(window(&answered), NOTHING_ANSWERED),
        total: columns(&answered),
        categories: groups
            .into_iter()
            .map(|(category, rows)| (category.to_owned(), columns(&rows)))
            .collect(),
    }
}

const NOTHING_ANSWERED: &str = "no measured request was answered";

#[expect(clippy::cast_precision_loss, reason = "token counts and window lengths are far below 2^52")]
fn window(rows: &[&Row]) -> Option<Window> {
    let start_ns = rows.iter().map(|row| row.start_ns).min()?;
    let end_ns = rows.iter().map(|row| row.end_ns).max()?;
    let seconds = (end_ns - start_ns) as f64 / 1e9;
    let counted: Option<u64> = rows.iter().map(|row| row.output_tokens.map(|count| count.tokens)).sum();
    let output_tokens = Measured::or_unavailable(counted, "not every answer has a token count");
    let per_second = match (&output_tokens, seconds > 0.0) {
        (Measured::Value(tokens), true) => Measured::Value(*tokens as f64 / seconds),
        (Measured::Value(_), false) => Measured::unavailable("the window has no length"),
        (Measured::Unavailable(reason), _) => Measured::unavailable(reason.as_str()),
    };
    Some(Window { start_ns, end_ns, seconds, output_tokens, output_tokens_per_second: per_second })
}

fn columns(rows: &[&Row]) -> Columns {
    let client = |part: fn(&Row) -> Option<f64>, reason| {
        let reason = if rows.is_empty() { NOTHING_ANSWERED } else { reason };
        distribution(rows.iter().filter_map(|row| part(row)), reason)
    };
    Columns {
        requests: rows.len() as u64,
        client: ClientColumns {
            end_to_end_ms: client(|row| row.client.end_to_end_ms, "the client recorded no latency"),
            first_token_ms: client(
                |row| row.client.first_token_ms,
                "the client recorded no first token, as when answers are not streamed",
            ),
            inter_token_ms: client(
                |row| row.client.inter_token_ms,
                "the client recorded no time between tokens, as when answers are not streamed",
            ),
        },
        engine: engine(rows),
    }
}

fn engine(rows: &[&Row]) -> Measured<Vec<EngineColumns>> {
    let mut scopes: IndexMap<&str, Vec<&EngineTimes>> = IndexMap::new();
    for times in rows.iter().flat_map(|row| &row.engine) {
        scopes.entry(&times.scope).or_default().push(times);
    }
    scopes.sort_keys();
    if scopes.is_empty() {
        let reason = if rows.is_empty() { NOTHING_ANSWERED } else { "the engine reported no times" };
        return Measured::unavailable(reason);
    }
    Measured::Value(scopes.into_iter().map(|(scope, times)| engine_columns(scope, &times)).collect())
}

fn engine_columns(scope: &str, times: &[&EngineTimes]) -> EngineColumns {
    let column = |part: fn(&EngineTimes) -> Option<f64>| {
        distribution(times.iter().filter_map(|times| part(times)), "not part of what this scope reports")
    };
    EngineColumns {
        scope: scope.to_owned(),
        requests: times.len() as u64,
        call_ms: column(|times| times.call_ms),
        prompt_ms: column(|times| times.prompt_ms),
        decode_ms: column(|times| times.decode_ms),
        decode_per_token_ms: column(EngineTimes::decode_per_token_ms),
        queue_ms: column(|times| times.queue_ms),
    }
}

impl EngineTimes {
    /// The decode stage divided by the tokens it generated.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
    pub fn decode_per_token_ms(&self) -> Option<f64> {
        let tokens = self.decode_tokens.filter(|tokens| *tokens > 0)?;
        Some(self.decode_ms? / tokens as f64)
    }
}

fn distribution(values: impl Iterator<Item = f64>, reason: &str) -> Measured<Distribution> {
    Measured::or_unavailable(Distribution::of(values, "ms"), reason)
}

#[cfg(test)]
pub(super) mod tests;
