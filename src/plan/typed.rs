//! Typed values from a [`Tree`]: a serde deserializer whose errors know where.

use std::fmt;

use serde::de::{
    self, DeserializeOwned, DeserializeSeed, EnumAccess, IntoDeserializer, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};

use super::diagnostic::{Slip, nearest};
use super::tree::{Entry, Position, Tree, Value};

/// Reads a typed value; the error says what was expected and where.
pub fn from_tree<T: DeserializeOwned>(tree: &Tree) -> Result<T, Slip> {
    T::deserialize(Reader { tree }).map_err(|error| error.into_slip(tree.at))
}

/// A mistake whose place is filled in by the innermost value that knows it.
#[derive(Debug)]
struct Mistake {
    message: String,
    help: Option<String>,
    at: Option<Position>,
}

impl Mistake {
    fn at(mut self, at: Position) -> Self {
        self.at.get_or_insert(at);
        self
    }

    fn into_slip(self, fallback: Position) -> Slip {
        Slip { message: self.message, at: self.at.unwrap_or(fallback), help: self.help }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Mistake {}

fn unknown(what: &str, word: &str, expected: &[&str]) -> Mistake {
    let known = expected.join(", ");
    let help = match nearest(word, expected.iter().copied()) {
        Some(near) => format!("did you mean `{near}`? known here: {known}"),
        None if known.is_empty() => "nothing can be set here".to_owned(),
        None => format!("known here: {known}"),
    };
    Mistake { message: format!("unknown {what} `{word}`"), help: Some(help), at: None }
}

impl de::Error for Mistake {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self { message: message.to_string(), help: None, at: None }
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        unknown("key", field, expected)
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        unknown("word", variant, expected)
    }

    fn missing_field(field: &'static str) -> Self {
        Self {
            message: format!("the key `{field}` is missing"),
            help: Some(format!("add `{field}:` here")),
            at: None,
        }
    }
}

#[derive(Clone, Copy)]
struct Reader<'a> {
    tree: &'a Tree,
}

impl Reader<'_> {
    fn mismatch<T>(self, expected: &str) -> Result<T, Mistake> {
        let help = match &self.tree.value {
            Value::Integer(_) | Value::Float(_) | Value::Bool(_) if expected == "text" => {
                Some("put it in quotes if text is meant".to_owned())
            }
            _ => None,
        };
        let message = format!("expected {expected}, found {}", self.tree.describe());
        Err(Mistake { message, help, at: Some(self.tree.at) })
    }

    fn visit_text<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match &self.tree.value {
            Value::Text(text) => visitor.visit_str(text).map_err(|e: Mistake| e.at(self.tree.at)),
            Value::Integer(n) if self.tree.resolved => visitor.visit_str(&n.to_string()),
            Value::Float(x) if self.tree.resolved => visitor.visit_str(&x.to_string()),
            Value::Bool(b) if self.tree.resolved => visitor.visit_str(&b.to_string()),
            _ => self.mismatch("text"),
        }
    }

    fn visit_number<'de, V: Visitor<'de>>(self, visitor: V, what: &str) -> Result<V::Value, Mistake> {
        let at = self.tree.at;
        match &self.tree.value {
            Value::Integer(n) => visitor.visit_i64(*n).map_err(|e: Mistake| e.at(at)),
            Value::Float(x) if what == "a number" => visitor.visit_f64(*x).map_err(|e: Mistake| e.at(at)),
            _ => self.mismatch(what),
        }
    }

    fn visit_entries<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match &self.tree.value {
            Value::Map(entries) => visitor
                .visit_map(Entries { entries: entries.iter(), value: None })
                .map_err(|e: Mistake| e.at(self.tree.at)),
            _ => self.mismatch("a mapping"),
        }
    }
}

macro_rules! numbers {
    ($what:literal: $($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
            self.visit_number(visitor, $what)
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
            Value::Integer(_) | Value::Float(_) => self.visit_number(visitor, "a number"),
            Value::Text(_) => self.visit_text(visitor),
            Value::List(_) => self.deserialize_seq(visitor),
            Value::Map(_) => self.visit_entries(visitor),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match &self.tree.value {
            Value::Bool(value) => visitor.visit_bool(*value),
            _ => self.mismatch("true or false"),
        }
    }

    numbers!("a whole number": deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64);
    numbers!("a number": deserialize_f32 deserialize_f64);
    texts!(deserialize_char deserialize_str deserialize_string deserialize_bytes
        deserialize_byte_buf deserialize_identifier);

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match &self.tree.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match &self.tree.value {
            Value::Null => visitor.visit_unit(),
            _ => self.mismatch("nothing"),
        }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match &self.tree.value {
            Value::List(items) => {
                visitor.visit_seq(Items(items.iter())).map_err(|e: Mistake| e.at(self.tree.at))
            }
            _ => self.mismatch("a list"),
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
        let at = self.tree.at;
        match &self.tree.value {
            Value::Text(_) => visitor.visit_enum(Choice { key: self.tree, at, value: None }),
            Value::Map(entries) if entries.len() == 1 => {
                let Entry { key, at, value } = &entries[0];
                let key = Tree::written(Value::Text(key.clone()), *at);
                visitor.visit_enum(Choice { key: &key, at: *at, value: Some(value) })
            }
            _ => self.mismatch(&format!("one of {}", variants.join(", "))),
        }
        .map_err(|e: Mistake| e.at(at))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        visitor.visit_unit()
    }
}

struct Items<'a>(std::slice::Iter<'a, Tree>);

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = Mistake;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Mistake> {
        self.0.next().map(|tree| seed.deserialize(Reader { tree }).map_err(|e| e.at(tree.at))).transpose()
    }
}

struct Entries<'a> {
    entries: std::slice::Iter<'a, Entry>,
    value: Option<&'a Tree>,
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = Mistake;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Mistake> {
        let Some(entry) = self.entries.next() else { return Ok(None) };
        self.value = Some(&entry.value);
        seed.deserialize(entry.key.as_str().into_deserializer())
            .map(Some)
            .map_err(|e: Mistake| e.at(entry.at))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Mistake> {
        let Some(tree) = self.value.take() else {
            return Err(de::Error::custom("a value was asked for before its key"));
        };
        seed.deserialize(Reader { tree }).map_err(|e| e.at(tree.at))
    }
}

struct Choice<'a> {
    key: &'a Tree,
    at: Position,
    value: Option<&'a Tree>,
}

impl<'de> EnumAccess<'de> for Choice<'_> {
    type Error = Mistake;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Mistake> {
        let variant = seed.deserialize(Reader { tree: self.key }).map_err(|e| e.at(self.at))?;
        Ok((variant, self))
    }
}

impl Choice<'_> {
    fn settings(&self) -> Result<Reader<'_>, Mistake> {
        self.value.map(|tree| Reader { tree }).ok_or_else(|| Mistake {
            message: format!("{} needs settings", self.key.describe()),
            help: None,
            at: Some(self.at),
        })
    }
}

impl<'de> VariantAccess<'de> for Choice<'_> {
    type Error = Mistake;

    fn unit_variant(self) -> Result<(), Mistake> {
        match self.value {
            None => Ok(()),
            Some(tree) if tree.value == Value::Null => Ok(()),
            Some(tree) => Reader { tree }.mismatch("no settings"),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Mistake> {
        seed.deserialize(self.settings()?)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Mistake> {
        de::Deserializer::deserialize_seq(self.settings()?, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        self.settings()?.visit_entries(visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Load {
        concurrency: u32,
        #[serde(default)]
        name: Option<String>,
        #[serde(default)]
        mode: Vec<Mode>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "snake_case")]
    enum Mode {
        Plain,
        Draft { depth: u8 },
    }

    fn read(text: &str) -> Result<Load, Slip> {
        from_tree(&Tree::parse(text).unwrap())
    }

    fn slip(text: &str) -> (usize, usize, String, String) {
        let slip = read(text).unwrap_err();
        (slip.at.line, slip.at.column, slip.message, slip.help.unwrap_or_default())
    }

    #[test]
    fn good_settings_are_read() {
        let load = read("concurrency: 2\nmode: [plain, {draft: {depth: 3}}]").unwrap();
        assert_eq!(load.concurrency, 2);
        assert_eq!(load.mode, [Mode::Plain, Mode::Draft { depth: 3 }]);
    }

    #[test]
    fn an_unknown_key_is_shown_at_the_key_with_the_nearest_one() {
        let (line, column, message, help) = slip("concurrency: 2\nnane: x\n");
        assert_eq!((line, column), (2, 1));
        assert_eq!(message, "unknown key `nane`");
        assert!(help.starts_with("did you mean `name`?"), "{help}");
    }

    #[test]
    fn a_wrong_type_is_shown_at_the_value() {
        let (line, column, message, _) = slip("concurrency: two\n");
        assert_eq!((line, column), (1, 14));
        assert_eq!(message, "expected a whole number, found the text \"two\"");
        let (_, _, message, help) = slip("concurrency: 1\nname: 012\n");
        assert!(message.starts_with("expected text, found the number"), "{message}");
        assert_eq!(help, "put it in quotes if text is meant");
    }

    #[test]
    fn a_missing_key_is_named() {
        let (line, _, message, _) = slip("name: x\n");
        assert_eq!((line, message.as_str()), (1, "the key `concurrency` is missing"));
    }

    #[test]
    fn a_mistake_deep_inside_keeps_its_place() {
        let (line, column, message, _) = slip("concurrency: 1\nmode:\n  - draft: {depth: -1}\n");
        assert_eq!((line, column), (3, 20));
        assert!(message.contains("-1"), "{message}");
        let (_, _, message, help) = slip("concurrency: 1\nmode: [plane]\n");
        assert_eq!(message, "unknown word `plane`");
        assert!(help.contains("`plain`"), "{help}");
    }
}
