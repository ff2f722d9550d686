//! Percentiles of every quantity, by category and in total.

use crate::evidence::correlation::Correlation;
use crate::evidence::matrix::{CategoryTimings, Quantity};
use crate::evidence::measured::Measured;
use crate::evidence::timing::{Columns, Distribution};

/// Percentiles of every quantity by category, and in total as `all`.
pub(super) fn categories(correlation: &Correlation) -> Vec<CategoryTimings> {
    let total = ("all", &correlation.timings.total);
    let each = correlation.timings.categories.iter().map(|(name, columns)| (name.as_str(), columns));
    each.chain([total])
        .map(|(category, columns)| CategoryTimings {
            category: category.to_owned(),
            samples: usize::try_from(columns.requests).unwrap_or(usize::MAX),
            quantities: quantities(columns),
        })
        .collect()
}

fn quantities(columns: &Columns) -> Vec<Quantity> {
    let client = [
        ("request latency (client)", &columns.client.end_to_end_ms),
        ("time to first token (client)", &columns.client.first_token_ms),
        ("inter-token latency (client)", &columns.client.inter_token_ms),
    ];
    let mut quantities: Vec<_> = client.map(|(name, values)| quantity(name.to_owned(), values)).into();
    for scope in columns.engine.value().into_iter().flatten() {
        let engine = [
            ("engine call", &scope.call_ms),
            ("engine prompt stage", &scope.prompt_ms),
            ("engine decode stage", &scope.decode_ms),
        ];
        let measured = engine.into_iter().filter(|(_, values)| values.value().is_some());
        quantities
            .extend(measured.map(|(name, values)| quantity(format!("{name} ({})", scope.scope), values)));
    }
    quantities
}

fn quantity(name: String, values: &Measured<Distribution>) -> Quantity {
    let part = |part: fn(&Distribution) -> f64| values.value().map(part);
    Quantity {
        name,
        unit: "ms".to_owned(),
        count: values.value().map_or(0, |d| usize::try_from(d.count).unwrap_or(usize::MAX)),
        p50: part(|d| d.p50),
        p90: part(|d| d.p90),
        p95: part(|d| d.p95),
        p99: part(|d| d.p99),
        unavailable: values.reason().map(str::to_owned),
    }
}
