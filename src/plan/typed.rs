//! Typed values from a [`Tree`]: a serde deserializer whose errors know where,
//! and which goes on after an error to find the others.

mod access;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use serde::de::{self, DeserializeOwned, Visitor};

use access::{Choice, Entries, Items};

use super::diagnostic::{MOST, Slip, nearest};
use super::mistake::{Faults, Mistake};
use super::tree::{Entry, Number, Origin, Position, Tree, Value};
use super::yaml::misread;
use crate::value::reference::{Piece, pieces};

/// The way out where a value is known too late.
const KNOWN_BEFORE: &str = "write the value itself, or use a parameter";

/// Reads a typed value. Every mistake goes to `slips`; there is a value only
/// where there is none.
pub fn from_tree<T: DeserializeOwned>(tree: &Tree, slips: &mut Vec<Slip>) -> Option<T> {
    read(tree.at, slips, |faults| T::deserialize(Reader::new(tree, faults)))
}

/// Reads a mapping without some of its keys.
pub fn from_entries<T: DeserializeOwned>(
    entries: &[Entry],
    without: &str,
    at: Position,
    slips: &mut Vec<Slip>,
) -> Option<T> {
    read(at, slips, |faults| T::deserialize(Fields { entries, without, at, faults }))
}

/// Reads one alternative of several: the key names it, the value holds its
/// settings.
pub fn from_entry<T: DeserializeOwned>(entry: &Entry, slips: &mut Vec<Slip>) -> Option<T> {
    let key = Tree { value: Value::Text(entry.key.clone()), at: entry.at, origin: Origin::Plain };
    read(entry.at, slips, |faults| T::deserialize(Alternative { key: &key, value: &entry.value, faults }))
}

/// Reads again and again, each time without what is known to be wrong, until
/// nothing new is found.
fn read<T>(
    at: Position,
    slips: &mut Vec<Slip>,
    mut attempt: impl FnMut(&Faults) -> Result<T, Mistake>,
) -> Option<T> {
    let faults = Faults::default();
    let value = loop {
        match attempt(&faults) {
            Ok(value) => break Some(value),
            Err(mistake) if mistake.left_out && faults.slips.borrow().len() <= MOST => {}
            Err(mistake) if mistake.left_out => break None,
            Err(mistake) => {
                if !mistake.follows {
                    faults.slips.borrow_mut().push(mistake.into_slip(at));
                }
                break None;
            }
        }
    };
    let found = faults.slips.into_inner();
    let value = value.filter(|_| found.is_empty());
    slips.extend(found);
    value
}

#[derive(Clone, Copy)]
struct Reader<'a> {
    tree: &'a Tree,
    faults: &'a Faults,
    /// Whether the setting keeps its references until the node runs.
    keeps_references: bool,
}

impl<'a> Reader<'a> {
    fn new(tree: &'a Tree, faults: &'a Faults) -> Self {
        Self { tree, faults, keeps_references: false }
    }

    fn mistake(self, message: impl Into<String>) -> Mistake {
        Mistake::new(message).at(self.tree.at)
    }

    fn mismatch(self, expected: &str) -> Mistake {
        let found = &self.tree.value;
        if let Some(later) = found_later(found) {
            return self.mistake(later).help(KNOWN_BEFORE);
        }
        let mistake = self.mistake(format!("expected {expected}, found {}", found.describe()));
        match (expected, found) {
            ("text", Value::Number(_) | Value::Bool(_)) => mistake.help(format!(
                "write it in quotes if text is meant: \"{}\"",
                found.as_text().unwrap_or_default()
            )),
            ("text", Value::Null) => mistake.help("write the text, or \"\" for an empty one"),
            ("text", _) => mistake
                .help("write one value; text that begins with a bracket or holds `: ` stands in quotes"),
            ("true or false", Value::Text(text)) => mistake.help(match misread(text) {
                Some("the boolean true") => "write true",
                Some("the boolean false") => "write false",
                _ => "write true or false, without quotes",
            }),
            ("a list", Value::Text(_) | Value::Number(_) | Value::Bool(_)) => {
                mistake.help(format!("write a list of one: [{}]", found.as_text().unwrap_or_default()))
            }
            ("a list", Value::Null | Value::Map(_)) => {
                mistake.help("write a list: each item on a line of its own after `- `")
            }
            ("a mapping", _) => {
                mistake.help("write `key: value` lines, indented below the key, or {} for none")
            }
            ("a number" | "a whole number", Value::Text(text)) if Number::parse(text).is_some() => {
                mistake.help("write it without quotes")
            }
            ("a number" | "a whole number", Value::Text(text))
                if text.contains('_') && Number::parse(&text.replace('_', "")).is_some() =>
            {
                mistake.help(format!("write {}", text.replace('_', "")))
            }
            ("a duration", Value::Number(number)) => {
                mistake.help(format!("write it with its unit: {number}s, or with ms, m, h or d"))
            }
            ("a duration", _) => mistake.help("write a whole number and ms, s, m, h or d, such as 30s"),
            ("a number" | "a whole number", _) => mistake.help("write a number such as 1, without a unit"),
            ("nothing", _) => mistake.help("remove the value; it takes no settings"),
            _ => mistake,
        }
    }

    fn visit_text<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        let resolved = self.tree.origin == Origin::Resolved;
        let text = match &self.tree.value {
            Value::Text(text) => Cow::Borrowed(text.as_str()),
            Value::Number(_) | Value::Bool(_) if resolved => {
                self.tree.value.as_text().unwrap_or_default().into()
            }
            _ => return Err(self.mismatch("text")),
        };
        if self.tree.origin == Origin::Plain
            && let Some(other) = misread(&text)
        {
            let message = format!("`{text}` without quotes is {other} to some readers of YAML");
            let help = format!("write \"{text}\" if text is meant");
            return Err(self.mistake(message).help(help));
        }
        let placed = |e: Mistake| e.at(self.tree.at);
        if self.keeps_references || !text.contains("${") {
            return visitor.visit_str(&text).map_err(placed);
        }
        visitor.visit_str(&self.literal(&text)?).map_err(placed)
    }

    /// The text of a setting that cannot hold what a node produces.
    fn literal(self, text: &str) -> Result<String, Mistake> {
        let mut literal = String::new();
        for piece in pieces(text).unwrap_or_default() {
            match piece {
                Piece::Literal(part) => literal.push_str(&part),
                Piece::Reference(inner) => return Err(self.mistake(later(inner)).help(KNOWN_BEFORE)),
            }
        }
        Ok(literal)
    }

    fn visit_integer<'de, V: Visitor<'de>>(
        self,
        visitor: V,
        least: i128,
        most: i128,
    ) -> Result<V::Value, Mistake> {
        let number = self.number("a whole number")?;
        let Some(integer) = number.integer() else {
            let help =
                number.float().filter(|float| float.fract() == 0.0).map(|float| format!("write {float}"));
            let message = format!("expected a whole number, found the number {number}");
            return Err(self.mistake(message).help(help.unwrap_or_else(|| "remove the fraction".to_owned())));
        };
        if integer < least || integer > most {
            let range =
                if integer < least { format!("of {least} or more") } else { format!("of {most} or less") };
            let message = format!("expected a whole number {range}, found {integer}");
            return Err(self.mistake(message).help("write a number in that range"));
        }
        let placed = |e: Mistake| e.at(self.tree.at);
        match (i64::try_from(integer), u64::try_from(integer)) {
            (Ok(integer), _) => visitor.visit_i64(integer).map_err(placed),
            (_, Ok(integer)) => visitor.visit_u64(integer).map_err(placed),
            _ => Err(self.mistake(format!("the number {integer} is too large")).help("write a smaller one")),
        }
    }

    fn visit_float<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        let number = self.number("a number")?;
        let float = number.float().ok_or_else(|| {
            self.mistake(format!("the number {number} is too large")).help("write a smaller one")
        })?;
        visitor.visit_f64(float).map_err(|e: Mistake| e.at(self.tree.at))
    }

    /// A number; one that a reference brought as text counts.
    fn number(self, expected: &str) -> Result<Number, Mistake> {
        let number = match &self.tree.value {
            Value::Number(number) => number.clone(),
            Value::Text(text) if self.tree.origin == Origin::Resolved => {
                Number::parse(text).ok_or_else(|| self.mismatch(expected))?
            }
            _ => return Err(self.mismatch(expected)),
        };
        if number.has_leading_zero() && self.tree.origin == Origin::Plain {
            let plain = number.integer().unwrap_or_default();
            return Err(self
                .mistake(format!("`{number}` is {plain} to YAML 1.2 and an octal number to older readers"))
                .help(format!("write {plain}, or \"{number}\" if text is meant")));
        }
        Ok(number)
    }

    fn visit_entries<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match &self.tree.value {
            Value::Map(entries) => visit_fields(visitor, entries, "", self.tree.at, self.faults),
            _ => Err(self.mismatch("a mapping")),
        }
    }
}

fn visit_fields<'de, V: Visitor<'de>>(
    visitor: V,
    entries: &[Entry],
    without: &str,
    at: Position,
    faults: &Faults,
) -> Result<V::Value, Mistake> {
    let fields = Entries { rest: entries.iter(), without, value: None, faults };
    visitor.visit_map(fields).map_err(|mistake| {
        let left_out = |key: &str| {
            entries.iter().any(|entry| is_meant(&entry.key, key) && faults.is_left_out(&entry.value))
        };
        let mut mistake = mistake.at(at);
        mistake.follows |= mistake.missing.is_some_and(left_out);
        mistake
    })
}

/// Whether a key that is wrong stands for one that is missing.
fn is_meant(key: &str, missing: &str) -> bool {
    nearest(key, [missing]).is_some()
}

/// Why a value cannot be known in time.
fn later(reference: &str) -> String {
    format!("`${{{reference}}}` is known only once that node has run, and this is needed before")
}

fn found_later(value: &Value) -> Option<String> {
    let Value::Text(text) = value else { return None };
    pieces(text).ok()?.into_iter().find_map(|piece| match piece {
        Piece::Reference(inner) => Some(later(inner)),
        Piece::Literal(_) => None,
    })
}

/// The fields of a mapping without one of its keys.
struct Fields<'a> {
    entries: &'a [Entry],
    without: &'a str,
    at: Position,
    faults: &'a Faults,
}

impl<'de> de::Deserializer<'de> for Fields<'_> {
    type Error = Mistake;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        visit_fields(visitor, self.entries, self.without, self.at, self.faults)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// One alternative with its settings.
struct Alternative<'a> {
    key: &'a Tree,
    value: &'a Tree,
    faults: &'a Faults,
}

impl<'de> de::Deserializer<'de> for Alternative<'_> {
    type Error = Mistake;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        let Self { key, value, faults } = self;
        visitor
            .visit_enum(Choice { key, at: key.at, value: Some(value), faults })
            .map_err(|e: Mistake| e.at(key.at))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

macro_rules! integers {
    ($($method:ident: $type:ty),* $(,)?) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
            self.visit_integer(visitor, <$type>::MIN.into(), <$type>::MAX.into())
        })*
    };
}

macro_rules! texts {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
            self.visit_text(visitor)
        })*
    };
}

impl<'de> de::Deserializer<'de> for Reader<'_> {
    type Error = Mistake;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match &self.tree.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Number(number) if number.integer().is_some() => self.deserialize_i64(visitor),
            Value::Number(_) => self.visit_float(visitor),
            Value::Text(_) => self.visit_text(visitor),
            Value::List(_) => self.deserialize_seq(visitor),
            Value::Map(_) => self.visit_entries(visitor),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match &self.tree.value {
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Text(text) if self.tree.origin == Origin::Resolved => match text.as_str() {
                "true" => visitor.visit_bool(true),
                "false" => visitor.visit_bool(false),
                _ => Err(self.mismatch("true or false")),
            },
            _ => Err(self.mismatch("true or false")),
        }
    }

    integers!(deserialize_i8: i8, deserialize_i16: i16, deserialize_i32: i32, deserialize_i64: i64,
        deserialize_u8: u8, deserialize_u16: u16, deserialize_u32: u32, deserialize_u64: u64);
    texts!(deserialize_char deserialize_str deserialize_string deserialize_bytes
        deserialize_byte_buf deserialize_identifier);

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        self.visit_float(visitor)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        self.visit_float(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match &self.tree.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match &self.tree.value {
            Value::Null => visitor.visit_unit(),
            _ => Err(self.mismatch("nothing")),
        }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        self.deserialize_unit(visitor)
    }

    /// Settings of the types `Text` and `Input` keep their references until the node runs.
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        let keeps_references = matches!(name, "Text" | "Input");
        if name == "Duration" && !matches!(&self.tree.value, Value::Text(text) if misread(text).is_none()) {
            return Err(self.mismatch("a duration"));
        }
        visitor.visit_newtype_struct(Self { keeps_references, ..self })
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match &self.tree.value {
            Value::List(items) => visitor
                .visit_seq(Items { items: items.iter(), faults: self.faults })
                .map_err(|e: Mistake| e.at(self.tree.at)),
            _ => Err(self.mismatch("a list")),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Mistake> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        self.visit_entries(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        self.visit_entries(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        let Self { tree, faults, .. } = self;
        match &tree.value {
            Value::Text(_) => visitor
                .visit_enum(Choice { key: tree, at: tree.at, value: None, faults })
                .map_err(|e: Mistake| e.at(tree.at)),
            Value::Map(entries) if entries.len() == 1 => {
                let Entry { key, at, value } = &entries[0];
                let key = Tree { value: Value::Text(key.clone()), at: *at, origin: Origin::Plain };
                Alternative { key: &key, value, faults }.deserialize_any(visitor)
            }
            Value::Map(entries) if entries.len() > 1 => {
                let (first, second) = (&entries[0].key, &entries[1]);
                let message = format!("`{first}` and `{}` stand here, where one is needed", second.key);
                Err(Mistake::new(message).at(second.at).help("keep one of them"))
            }
            _ => Err(self
                .mistake(format!("expected one of {}, found {}", variants.join(", "), tree.value.describe()))
                .help("write one of them")),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        visitor.visit_unit()
    }
}
