//! `profile_export.jsonl`: one request a line, with AIPerf's metrics.

use serde::Deserialize;

use super::failure::RecordError;
use super::metadata::Metadata;
use crate::jsonl::FromLine;

/// A line of `profile_export.jsonl`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ClientRecord {
    /// Who, when and in which phase.
    pub metadata: Metadata,
    /// The metrics that we use; a failed request has hardly any.
    #[serde(default)]
    pub metrics: Metrics,
    /// Why it failed, if it did.
    pub error: Option<RecordError>,
}

/// The metrics of one request that we use. A metric of a unit that we do not
/// know is none.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Metrics {
    /// From sending to the last chunk.
    pub request_latency: Option<Metric>,
    /// From sending to the first token.
    pub time_to_first_token: Option<Metric>,
    /// Mean time between tokens after the first.
    pub inter_token_latency: Option<Metric>,
    /// Tokens of the prompt.
    pub input_sequence_length: Option<Metric>,
    /// Tokens of the output, with reasoning.
    pub output_sequence_length: Option<Metric>,
}

/// A value with its unit; lists of values are not used and not kept.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Metric {
    /// The value; AIPerf writes null for one that is not finite.
    pub value: Option<f64>,
    /// Its unit, as AIPerf writes it: `ms`, `tokens`, …
    pub unit: String,
}

impl Metric {
    /// The value in milliseconds, if it is a time.
    #[must_use]
    pub fn milliseconds(&self) -> Option<f64> {
        let factor = match self.unit.as_str() {
            "ns" => 1e-6,
            "us" => 1e-3,
            "ms" => 1.0,
            "sec" | "s" => 1e3,
            _ => return None,
        };
        Some(self.value? * factor)
    }

    /// The value as a count, if it is one of tokens.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked to be a whole number that fits"
    )]
    pub fn tokens(&self) -> Option<u64> {
        let value = self.value.filter(|value| *value >= 0.0 && value.fract() == 0.0 && *value < 1e15)?;
        (self.unit == "tokens").then_some(value as u64)
    }
}

impl FromLine for ClientRecord {
    fn from_line(line: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(line)
    }
}
