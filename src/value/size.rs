//! Amounts of bytes as people write them: `512B`, `500MB`, `20GiB`, `1.5TiB`.

use std::fmt;
use std::str::FromStr;

/// A number of bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(u64);

/// Units with their bytes; those that are printed come first, largest first.
const UNITS: [(&str, u64); 9] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1000),
];

/// How many of [`UNITS`] are printed.
const PRINTED: usize = 5;

impl Size {
    /// A size of so many bytes.
    #[must_use]
    pub const fn of_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// The size in bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

/// The text is not a number with a unit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no size; write a number and B, kB, MB, GB, TB, KiB, MiB, GiB or TiB, such as 20GiB")]
pub struct InvalidSize(String);

impl FromStr for Size {
    type Err = InvalidSize;

    fn from_str(text: &str) -> Result<Self, InvalidSize> {
        let read = || {
            let split = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
            let (number, unit) = text.split_at(split);
            let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit)?;
            let (whole, tenths) = match number.split_once('.') {
                None => (number, 0),
                Some((whole, tenths)) if tenths.len() == 1 => (whole, tenths.parse().ok()?),
                Some(_) => return None,
            };
            let tenths = whole.parse::<u64>().ok()?.checked_mul(10)?.checked_add(tenths)?;
            // Rounded up, so that a tenth of a unit is printed as what it was.
            u64::try_from((u128::from(tenths) * u128::from(*factor)).div_ceil(10)).ok()
        };
        read().map(Self).ok_or_else(|| InvalidSize(text.to_owned()))
    }
}

impl fmt::Display for Size {
    /// In the largest unit of which there is one, with one decimal where the
    /// size is not whole in it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let printed = &UNITS[..PRINTED];
        let (unit, factor) = printed.iter().find(|(_, factor)| self.0 >= *factor).unwrap_or(&("B", 1));
        let tenths = u128::from(self.0) * 10 / u128::from(*factor);
        match tenths % 10 {
            0 => write!(f, "{}{unit}", tenths / 10),
            tenth => write!(f, "{}.{tenth}{unit}", tenths / 10),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_reads_back_what_it_prints() {
        for text in ["0B", "512B", "1KiB", "1.5MiB", "20GiB", "3.2TiB"] {
            assert_eq!(text.parse::<Size>().unwrap().to_string(), text);
        }
        assert_eq!("500MB".parse::<Size>(), Ok(Size::of_bytes(500_000_000)));
        assert_eq!("2kB".parse::<Size>().unwrap().to_string(), "1.9KiB");
        assert_eq!(Size::of_bytes(u64::MAX).to_string(), "16777215.9TiB");
    }

    #[test]
    fn a_number_without_a_known_unit_is_refused() {
        for text in ["", "20", "GiB", "20 GiB", "20gib", "-1B", "1.25GiB", "1..5GiB", "99999999999TiB"] {
            assert!(text.parse::<Size>().is_err(), "{text:?}");
        }
    }
}
