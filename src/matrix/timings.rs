//! Percentiles per subject and quantity, laid out for the templates.

use serde::Serialize;

use super::check::percentiles;
use super::view::busy;
use crate::evidence::matrix::{CategoryTimings, Matrix, MatrixRow, Quantity};

/// All tables of one subject.
#[derive(Serialize)]
pub(super) struct Timings<'a> {
    subject: &'a str,
    mode: &'a str,
    mode_label: &'static str,
    status: &'a str,
    busy: Option<String>,
    tables: Vec<Table<'a>>,
}

/// One quantity over all categories.
#[derive(Serialize)]
struct Table<'a> {
    name: &'a str,
    unit: &'a str,
    /// Set when no category has a value, and all for the same reason.
    unavailable: Option<&'a str>,
    /// End of the scale of the bars, which begins at 0.
    scale: String,
    rows: Vec<Row<'a>>,
}

/// One quantity in one category.
#[derive(Serialize)]
struct Row<'a> {
    category: &'a str,
    requests: usize,
    samples: usize,
    /// p50, p90, p95, p99 as printed; absent where there is none.
    percentiles: [Option<String>; 4],
    unavailable: Option<&'a str>,
    bar: Option<Bar>,
}

/// Where the percentiles lie on the scale, in percent.
#[derive(Serialize)]
struct Bar {
    p50: String,
    to_p90: String,
    to_p99: String,
    label: String,
}

/// The tables of every subject, in the order of the matrix.
pub(super) fn timings(matrix: &Matrix, mode_label: fn(&str) -> &'static str) -> Vec<Timings<'_>> {
    matrix
        .rows
        .iter()
        .map(|row| Timings {
            subject: &row.subject,
            mode: &row.mode,
            mode_label: mode_label(&row.mode),
            status: &row.status,
            busy: busy(row),
            tables: quantities(row).into_iter().map(|(name, unit)| table(matrix, row, name, unit)).collect(),
        })
        .collect()
}

/// The quantities of a row, in the order in which they first appear.
fn quantities(row: &MatrixRow) -> Vec<(&str, &str)> {
    let mut names = Vec::new();
    for quantity in row.categories.iter().flat_map(|timings| &timings.quantities) {
        let name = (quantity.name.as_str(), quantity.unit.as_str());
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn table<'a>(matrix: &'a Matrix, row: &'a MatrixRow, name: &'a str, unit: &'a str) -> Table<'a> {
    let longest = longest(matrix, name, unit);
    let decimals = decimals(longest);
    let rows: Vec<_> =
        row.categories.iter().map(|timings| table_row(timings, name, unit, longest, decimals)).collect();
    Table { name, unit, unavailable: common_reason(&rows), scale: format!("{longest:.decimals$}"), rows }
}

/// The largest percentile of a quantity over all subjects, so that their bars compare.
fn longest(matrix: &Matrix, name: &str, unit: &str) -> f64 {
    matrix
        .rows
        .iter()
        .flat_map(|row| &row.categories)
        .flat_map(|timings| &timings.quantities)
        .filter(|quantity| quantity.name == name && quantity.unit == unit)
        .flat_map(|quantity| percentiles(quantity).into_iter().flatten())
        .fold(0.0, f64::max)
}

/// Decimals that keep about four digits of the largest value.
fn decimals(longest: f64) -> usize {
    match longest {
        longest if longest >= 1000.0 => 0,
        longest if longest >= 100.0 => 1,
        longest if longest >= 1.0 => 2,
        _ => 3,
    }
}

fn table_row<'a>(
    timings: &'a CategoryTimings,
    name: &str,
    unit: &str,
    longest: f64,
    decimals: usize,
) -> Row<'a> {
    let quantity = timings.quantities.iter().find(|quantity| quantity.name == name && quantity.unit == unit);
    let printed = |value: Option<f64>| value.map(|value| format!("{value:.decimals$}"));
    Row {
        category: &timings.category,
        requests: timings.samples,
        samples: quantity.map_or(0, |quantity| quantity.count),
        percentiles: quantity.map(percentiles).unwrap_or_default().map(printed),
        unavailable: match quantity {
            None => Some("not recorded for this category"),
            Some(quantity) => quantity.unavailable.as_deref(),
        },
        bar: quantity.and_then(|quantity| bar(quantity, longest, decimals)),
    }
}

fn common_reason<'a>(rows: &[Row<'a>]) -> Option<&'a str> {
    let is_empty = |row: &Row| row.percentiles.iter().all(Option::is_none);
    let reason = rows.first()?.unavailable?;
    rows.iter().all(|row| is_empty(row) && row.unavailable == Some(reason)).then_some(reason)
}

fn bar(quantity: &Quantity, longest: f64, decimals: usize) -> Option<Bar> {
    let (p50, p90, p99) = (quantity.p50?, quantity.p90?, quantity.p99?);
    let share = |value: f64| format!("{:.1}", value / longest * 100.0);
    let unit = &quantity.unit;
    (longest > 0.0 && 0.0 <= p50 && p50 <= p90 && p90 <= p99).then(|| Bar {
        p50: share(p50),
        to_p90: share(p90 - p50),
        to_p99: share(p99 - p50),
        label: format!(
            "from {p50:.decimals$} to {p99:.decimals$} {unit} on a scale to {longest:.decimals$} {unit}"
        ),
    })
}
