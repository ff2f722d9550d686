//! A YAML document as a tree in which every value knows its line and column.

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{DuplicateKeyPolicy, Spanned};

use super::diagnostic::Slip;

/// A place in a file; lines and columns count from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Tree {
    /// What the value is.
    pub value: Value,
    /// Where it starts.
    pub at: Position,
    /// Whether a reference stood here, whose value may also serve as text.
    pub resolved: bool,
}

/// A YAML 1.2 value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `null`, `~` or nothing.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// A number with a fraction or an exponent.
    Float(f64),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<Tree>),
    /// A mapping in the order of the file; its keys are unique.
    Map(Vec<Entry>),
}

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
    /// Parses one YAML document; a duplicate key is an error.
    pub fn parse(text: &str) -> Result<Self, Slip> {
        let options = serde_saphyr::options! {
            strict_booleans: true,
            legacy_octal_numbers: false,
            duplicate_keys: DuplicateKeyPolicy::Error,
        };
        serde_saphyr::from_str_with_options::<Spanned<Value>>(text, options)
            .map(Self::from)
            .map_err(|error| Slip::from_yaml(&error))
    }

    /// A value as the file holds it.
    #[must_use]
    pub fn written(value: Value, at: Position) -> Self {
        Self { value, at, resolved: false }
    }

    /// The entry with this key, if the tree is a mapping that has it.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Tree> {
        self.entries().iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }

    /// The entries of a mapping; nothing for any other value.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }

    /// What the value is, for a sentence: "the text `x`", "a list".
    #[must_use]
    pub fn describe(&self) -> String {
        match &self.value {
            Value::Null => "nothing".to_owned(),
            Value::Bool(value) => format!("the boolean {value}"),
            Value::Integer(value) => format!("the number {value}"),
            Value::Float(value) => format!("the number {value}"),
            Value::Text(value) => format!("the text {value:?}"),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a mapping".to_owned(),
        }
    }
}

impl From<Spanned<Value>> for Tree {
    fn from(spanned: Spanned<Value>) -> Self {
        Self::written(spanned.value, position(&spanned.referenced))
    }
}

/// Where a location of the parser is.
pub(super) fn position(location: &serde_saphyr::Location) -> Position {
    let number = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    Position { line: number(location.line()), column: number(location.column()) }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Integer(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
        i64::try_from(value)
            .map(Value::Integer)
            .map_err(|_| E::custom(format!("the number {value} is too large")))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = sequence.next_element::<Spanned<Value>>()? {
            items.push(item.into());
        }
        Ok(Value::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some((key, value)) = map.next_entry::<Spanned<String>, Spanned<Value>>()? {
            entries.push(Entry { at: position(&key.referenced), key: key.value, value: value.into() });
        }
        Ok(Value::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_knows_its_line_and_column() {
        let tree = Tree::parse("a: 1\nb:\n  - x\n  - {c: true}\n").unwrap();
        assert_eq!(tree.get("a").unwrap().at, Position { line: 1, column: 4 });
        let Value::List(items) = &tree.get("b").unwrap().value else { panic!("no list") };
        assert_eq!(items[0].at, Position { line: 3, column: 5 });
        assert_eq!(items[1].entries()[0].at, Position { line: 4, column: 6 });
        assert_eq!(items[1].get("c").unwrap().value, Value::Bool(true));
    }

    #[test]
    fn a_duplicate_key_is_refused_at_its_place() {
        let slip = Tree::parse("a: 1\nb: 2\na: 3\n").unwrap_err();
        assert_eq!(slip.at.line, 3, "{slip:?}");
        assert!(slip.message.contains('a'), "{slip:?}");
    }

    #[test]
    fn words_of_yaml_1_1_stay_text() {
        let tree = Tree::parse("[no, on, yes, 012x, 1:30]").unwrap();
        let Value::List(items) = &tree.value else { panic!("no list") };
        assert!(items.iter().all(|item| matches!(item.value, Value::Text(_))), "{items:?}");
    }
}
