//! Lengths of time as people write them: `250ms`, `30s`, `5m`, `2h`, `7d`.

use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A whole number and a unit: `ms`, `s`, `m`, `h` or `d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Duration(std::time::Duration);

const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

impl Duration {
    /// A duration of whole seconds.
    #[must_use]
    pub const fn from_secs(seconds: u64) -> Self {
        Self(std::time::Duration::from_secs(seconds))
    }

    /// The standard library's form.
    #[must_use]
    pub const fn as_std(self) -> std::time::Duration {
        self.0
    }
}

/// The text is not a whole number with a unit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no duration; write a whole number and ms, s, m, h or d, such as 30s")]
pub struct InvalidDuration(String);

impl FromStr for Duration {
    type Err = InvalidDuration;

    fn from_str(text: &str) -> Result<Self, InvalidDuration> {
        let invalid = || InvalidDuration(text.to_owned());
        let split = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(invalid)?;
        let (number, unit) = text.split_at(split);
        let (_, millis) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(invalid)?;
        number
            .parse::<u64>()
            .ok()
            .and_then(|number| number.checked_mul(*millis))
            .map(|total| Self(std::time::Duration::from_millis(total)))
            .ok_or_else(invalid)
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_millis();
        let (unit, factor) = UNITS
            .iter()
            .find(|(_, factor)| millis.is_multiple_of(u128::from(*factor)) && millis > 0)
            .unwrap_or(&UNITS[3]);
        write!(f, "{}{unit}", millis / u128::from(*factor))
    }
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Text(text) = Text::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

/// The text of a [`Duration`], under a name by which a reader of plans knows
/// what a number in its place lacks.
#[derive(Deserialize)]
#[serde(rename = "Duration")]
struct Text(String);

impl JsonSchema for Duration {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Duration".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "A length of time: a whole number with its unit (ms, s, m, h or d), such as 30s.",
            "x-unit": "ms, s, m, h, d",
            "pattern": "^[0-9]+(ms|s|m|h|d)$",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_reads_back_what_it_prints() {
        for text in ["250ms", "30s", "5m", "2h", "7d", "0s"] {
            assert_eq!(text.parse::<Duration>().unwrap().to_string(), text);
        }
        assert_eq!("90s".parse::<Duration>().unwrap().to_string(), "90s");
        assert_eq!("60s".parse::<Duration>().unwrap().to_string(), "1m");
    }

    #[test]
    fn a_number_without_a_known_unit_is_refused() {
        for text in ["", "30", "s", "3 s", "1.5h", "-1s", "30x", "99999999999999999999d"] {
            assert!(text.parse::<Duration>().is_err(), "{text:?}");
        }
    }
}
