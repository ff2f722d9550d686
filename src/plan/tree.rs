//! A YAML document as a tree in which every value knows its line and column.

use std::fmt;

/// Most characters of a text that a message repeats.
const LONGEST: usize = 80;

/// A place in a file; lines and columns count from 1, and line 0 is the file
/// as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Tree {
    /// What the value is.
    pub value: Value,
    /// Where it starts.
    pub at: Position,
    /// How it got there.
    pub origin: Origin,
}

/// How a value got into a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Written without quotes, or a list or a mapping.
    Plain,
    /// Written in quotes or as a block of text.
    Quoted,
    /// A reference stood here, or the value was given on the command line:
    /// text may serve as a number and a number as text.
    Resolved,
    /// What stood here is a mistake that is known: nothing more is said of it.
    Unknown,
}

/// A YAML 1.2 value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `null`, `~` or nothing.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(Number),
    /// Text, in which `${…}` is a reference and `$${` stands for `${`.
    Text(String),
    /// A list.
    List(Vec<Tree>),
    /// A mapping in the order of the file; its keys are unique.
    Map(Vec<Entry>),
}

/// A number of the YAML 1.2 core schema, as it is written, so that a version
/// such as `1.10` stays what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Number(String);

/// One `key: value` of a mapping.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Where the key stands.
    pub at: Position,
    /// What it maps to.
    pub value: Tree,
}

impl Tree {
    /// A value that no file holds as it is.
    #[must_use]
    pub fn resolved(value: Value, at: Position) -> Self {
        Self { value, at, origin: Origin::Resolved }
    }

    /// The place of a value that is wrong in a way that is known.
    #[must_use]
    pub fn unknown(at: Position) -> Self {
        Self { value: Value::Text(String::new()), at, origin: Origin::Unknown }
    }

    /// The entry with this key, if the tree is a mapping that has it.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Tree> {
        self.entry(key).map(|entry| &entry.value)
    }

    /// The entry with this key, with the place of the key.
    #[must_use]
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    /// The entries of a mapping; nothing for any other value.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The items of a list; nothing for any other value.
    #[must_use]
    pub fn items(&self) -> &[Tree] {
        match &self.value {
            Value::List(items) => items,
            _ => &[],
        }
    }

    /// The text, if the value is one.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        self.value.text()
    }

    /// Shows every text of the tree, in the order of the file, with its place.
    pub fn visit_texts<'a>(&'a self, visit: &mut impl FnMut(&'a str, Position)) {
        match &self.value {
            Value::Text(text) => visit(text, self.at),
            Value::List(items) => items.iter().for_each(|item| item.visit_texts(visit)),
            Value::Map(entries) => entries.iter().for_each(|entry| entry.value.visit_texts(visit)),
            _ => {}
        }
    }
}

impl Value {
    /// What the value is, for a sentence: "the text `x`", "a list".
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Null => "nothing".to_owned(),
            Self::Bool(value) => format!("the boolean {value}"),
            Self::Number(number) => format!("the number {number}"),
            Self::Text(value) if value.chars().count() > LONGEST => {
                let start: String = value.chars().take(LONGEST).collect();
                format!("the text {:?}", start + "…")
            }
            Self::Text(value) => format!("the text {value:?}"),
            Self::List(_) => "a list".to_owned(),
            Self::Map(_) => "a mapping".to_owned(),
        }
    }

    /// The text, if the value is one.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The value as text, if it is no list, no mapping and not nothing.
    #[must_use]
    pub fn as_text(&self) -> Option<String> {
        match self {
            Self::Bool(value) => Some(value.to_string()),
            Self::Number(number) => Some(number.to_string()),
            Self::Text(text) => Some(text.clone()),
            Self::Null | Self::List(_) | Self::Map(_) => None,
        }
    }
}

impl Number {
    /// Reads a number of the core schema: decimal, `0o…`, `0x…`, with a
    /// fraction or an exponent. Infinities and what is not a number are text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = |text: &str, radix| !text.is_empty() && text.chars().all(|c| c.is_digit(radix));
        if let Some(octal) = text.strip_prefix("0o") {
            return digits(octal, 8).then(|| Self(text.to_owned()));
        }
        if let Some(hexadecimal) = text.strip_prefix("0x") {
            return digits(hexadecimal, 16).then(|| Self(text.to_owned()));
        }
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, Some(exponent)),
            None => (unsigned, None),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let decimal = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        let mantissa_holds =
            decimal(whole) && decimal(fraction) && !(whole.is_empty() && fraction.is_empty());
        let exponent_holds =
            exponent.is_none_or(|text| digits(text.strip_prefix(['-', '+']).unwrap_or(text), 10));
        (mantissa_holds && exponent_holds).then(|| Self(text.to_owned()))
    }

    /// The number, if it is written as a whole number and fits.
    #[must_use]
    pub fn integer(&self) -> Option<i128> {
        if let Some(octal) = self.0.strip_prefix("0o") {
            return i128::from_str_radix(octal, 8).ok();
        }
        if let Some(hexadecimal) = self.0.strip_prefix("0x") {
            return i128::from_str_radix(hexadecimal, 16).ok();
        }
        self.0.parse().ok()
    }

    /// The number, if it is finite.
    #[must_use]
    pub fn float(&self) -> Option<f64> {
        match self.integer() {
            #[expect(clippy::cast_precision_loss, reason = "a setting with a fraction is not exact either")]
            Some(integer) => Some(integer as f64),
            None => self.0.parse().ok().filter(|number: &f64| number.is_finite()),
        }
    }

    /// Whether it has a digit after a leading zero, which YAML 1.1 reads as
    /// octal and YAML 1.2 as decimal.
    #[must_use]
    pub fn has_leading_zero(&self) -> bool {
        let unsigned = self.0.strip_prefix(['-', '+']).unwrap_or(&self.0);
        unsigned.len() > 1 && unsigned.starts_with('0') && unsigned.bytes().all(|b| b.is_ascii_digit())
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_what_the_core_schema_calls_one() {
        for text in ["0", "12", "-3", "+4", "012", "0o17", "0xfF", "1.5", ".5", "1.", "1e3", "-2.5E-3"] {
            assert!(Number::parse(text).is_some(), "{text}");
        }
        for text in ["", "-", ".", "e3", "1e", "1e+", "0o8", "0x", "1_000", "1:30", ".inf", "1.2.3", "12x"] {
            assert!(Number::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn a_number_keeps_how_it_is_written() {
        let number = |text: &str| Number::parse(text).unwrap();
        assert_eq!(number("1.10").to_string(), "1.10");
        assert_eq!(number("0x10").integer(), Some(16));
        assert_eq!(number("1e3").integer(), None);
        assert_eq!(number("1e3").float(), Some(1000.0));
        assert_eq!(number("1e999").float(), None);
        assert!(number("012").has_leading_zero());
        assert!(!number("0").has_leading_zero() && !number("0.5").has_leading_zero());
    }
}
