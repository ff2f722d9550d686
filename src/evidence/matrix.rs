//! The coverage matrix: one row a subject, every cell with its evidence.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The whole matrix of one plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Matrix {
    /// Version of this document.
    pub schema_version: u32,
    /// The plan's name.
    pub plan: String,
    /// The plan's description.
    pub description: String,
    /// The columns, in order, with what each means.
    pub columns: Vec<Column>,
    /// One row a subject, in the order of the plan.
    pub rows: Vec<MatrixRow>,
}

/// One column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Column {
    /// Stable key, such as `request_latency_p50`.
    pub key: String,
    /// Heading.
    pub title: String,
    /// What the values mean, with unit and provenance, in one sentence.
    pub meaning: String,
    /// Columns of one group stand together under its heading.
    pub group: String,
}

/// One subject.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MatrixRow {
    /// Name of the subject.
    pub subject: String,
    /// The target that serves it.
    pub target: String,
    /// Runtime mode: `ordinary` or `speculative`.
    pub mode: String,
    /// Rung of the ladder.
    pub status: String,
    /// What is missing for the next rung.
    pub missing: Vec<String>,
    /// One cell a column, in the same order.
    pub cells: Vec<Cell>,
    /// The measurements that the row shows, by role, and how many more there
    /// are: every one is kept, and the newest is shown.
    #[serde(default)]
    pub measurements: Vec<ShownMeasurement>,
    /// Percentiles per category and in total.
    pub categories: Vec<CategoryTimings>,
    /// Why the machine was busy while it was measured; empty when it was quiet
    /// or nobody knows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub busy: Vec<String>,
}

/// One of the measurements that were made under one key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShownMeasurement {
    /// The role of its node in the subject, such as `load`.
    pub role: String,
    /// Its node.
    pub node: String,
    /// Its number, from 1.
    pub attempt: u32,
    /// How many measurements were made under its key.
    pub of: u32,
}

/// One cell: a value, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// The value as printed; absent when it was not measured.
    pub value: Option<String>,
    /// Why there is no value, or what qualifies the one there is.
    pub note: Option<String>,
    /// The evidence file it can be checked in, relative to the report.
    pub evidence: Option<String>,
}

/// Timings of one category; milliseconds; absent where not measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CategoryTimings {
    /// The category, or `all`.
    pub category: String,
    /// Requests with timings.
    pub samples: usize,
    /// Quantity, such as `request latency`, with its percentiles.
    pub quantities: Vec<Quantity>,
}

/// Percentiles of one quantity in one category.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Quantity {
    /// Name with the side that measured it, such as `request latency (client)`.
    pub name: String,
    /// Unit of the values.
    pub unit: String,
    /// Number of samples.
    pub count: usize,
    /// 50th percentile.
    pub p50: Option<f64>,
    /// 90th percentile.
    pub p90: Option<f64>,
    /// 95th percentile.
    pub p95: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// Why there are no values.
    pub unavailable: Option<String>,
}

impl Cell {
    /// A measured or recorded value.
    pub fn value(value: impl Into<String>) -> Self {
        Self { value: Some(value.into()), note: None, evidence: None }
    }

    /// No value, and why.
    pub fn unavailable(reason: impl Into<String>) -> Self {
        Self { value: None, note: Some(reason.into()), evidence: None }
    }

    /// Adds what qualifies the value.
    #[must_use]
    pub fn with_note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    /// Adds where it can be checked.
    #[must_use]
    pub fn shown_in(mut self, evidence: Option<&str>) -> Self {
        self.evidence = evidence.map(str::to_owned);
        self
    }
}
