//! Engine metrics in the Prometheus text format, as scraped around a load.

/// Name of the scrape before the load, in the load's export.
pub const BEFORE: &str = "engine-metrics-before.prom";
/// Name of the scrape after the load, in the load's export.
pub const AFTER: &str = "engine-metrics-after.prom";

/// The sum of a metric over its label sets; none where it is not there.
#[must_use]
pub fn sum(text: &str, name: &str) -> Option<f64> {
    let values = text.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        let value = match rest.strip_prefix('{') {
            Some(labels) => labels.rsplit_once('}')?.1,
            None => rest.strip_prefix(' ')?,
        };
        value.split_whitespace().next()?.parse::<f64>().ok()
    });
    values.fold(None, |sum, value| Some(sum.unwrap_or_default() + value))
}

/// A counter of whole things; none where it is not there or no such number.
#[must_use]
pub fn counter(text: &str, name: &str) -> Option<u64> {
    let value = sum(text, name)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is checked to fit")]
    (value.fract() == 0.0 && (0.0..9e15).contains(&value)).then_some(value as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_summed_over_its_labels_and_never_confused_with_a_longer_name() {
        let text = "# HELP a_total x\na_total 3\na_total_more 9\nb{x=\"1\"} 2\nb{x=\"2\"} 5 123\nc 1.5\n";
        assert_eq!(sum(text, "a_total"), Some(3.0));
        assert_eq!(counter(text, "b"), Some(7));
        assert_eq!(sum(text, "d"), None);
        assert_eq!(counter(text, "c"), None);
    }
}
