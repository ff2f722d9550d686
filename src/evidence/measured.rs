//! A value that was measured, or the reason why there is none.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A measured value, or why it is unavailable.
///
/// In JSON `{"value": 2.4}` or `{"unavailable": "speculation was off"}`: a
/// reader can neither miss the reason nor take an absent value for zero.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Measured<T> {
    /// What was measured.
    Value(T),
    /// Why nothing was measured: a phrase that fits after "unavailable: ".
    Unavailable(String),
}

impl<T> Measured<T> {
    /// No value, for this reason.
    pub fn unavailable(reason: impl Into<String>) -> Self {
        Self::Unavailable(reason.into())
    }

    /// The value if there is one, else unavailable for this reason.
    pub fn or_unavailable(value: Option<T>, reason: impl Into<String>) -> Self {
        value.map_or_else(|| Self::unavailable(reason), Self::Value)
    }

    /// The value, if it was measured.
    #[must_use]
    pub const fn value(&self) -> Option<&T> {
        match self {
            Self::Value(value) => Some(value),
            Self::Unavailable(_) => None,
        }
    }

    /// Why there is no value, if there is none.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Value(_) => None,
            Self::Unavailable(reason) => Some(reason),
        }
    }

    /// Changes the value and keeps the reason.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Measured<U> {
        match self {
            Self::Value(value) => Measured::Value(change(value)),
            Self::Unavailable(reason) => Measured::Unavailable(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_missing_value_is_written_with_its_reason() {
        let measured = [Measured::Value(2.5), Measured::unavailable("speculation was off")];
        let json = json!([{"value": 2.5}, {"unavailable": "speculation was off"}]);
        assert_eq!(serde_json::to_value(&measured).unwrap(), json);
        assert_eq!(serde_json::from_value::<[Measured<f64>; 2]>(json).unwrap(), measured);
    }

    #[test]
    fn neither_null_nor_a_bare_number_is_a_measured_value() {
        for text in ["null", "0", "{}", r#"{"value": null}"#] {
            assert!(serde_json::from_str::<Measured<f64>>(text).is_err(), "{text}");
        }
    }
}
