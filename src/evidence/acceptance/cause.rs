//! Why there is no acceptance number: a clean result, not an error or a zero.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The cause for which an acceptance quantity is unavailable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NoAcceptance {
    /// The run generated ordinarily.
    SpeculationOff,
    /// The engine was not told to report acceptance.
    FlagOff,
    /// A proxy between client and engine removes the field.
    StrippedByProxy,
    /// The request asked for several choices.
    SeveralChoices,
    /// The engine's metrics were not read.
    NoScrape,
    /// The metrics hold no name that we know.
    UnknownMetricName,
    /// Counters fell, so the server restarted between the scrapes.
    CountersWentBack,
    /// Nothing was drafted, so nothing was verified.
    NoVerifySteps,
    /// The source counts tokens and no verify steps.
    StepsNotReported,
    /// The export holds a summary and no answers.
    SummaryOnlyExport,
    /// The engine reports nothing about speculation.
    NotOffered,
    /// The answers carry no acceptance field, and nobody knows why.
    NoField,
    /// No measured request was answered.
    NothingAnswered,
}

impl fmt::Display for NoAcceptance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SpeculationOff => "speculation was off",
            Self::FlagOff => "the flag that makes the engine report acceptance was off",
            Self::StrippedByProxy => "a proxy stripped the field from the answers",
            Self::SeveralChoices => "n > 1: no acceptance is reported for several choices",
            Self::NoScrape => "the engine's metrics were not scraped",
            Self::UnknownMetricName => "the scrape holds no speculative metric of a known name",
            Self::CountersWentBack => "the counters fell between the scrapes: the server restarted",
            Self::NoVerifySteps => "no verify step happened: nothing was drafted",
            Self::StepsNotReported => "this source does not count verify steps",
            Self::SummaryOnlyExport => "the export is a summary without the answers",
            Self::NotOffered => "the engine reports nothing about speculation",
            Self::NoField => "the answers carry no acceptance field",
            Self::NothingAnswered => "no measured request was answered",
        })
    }
}
