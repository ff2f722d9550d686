//! Content digests: BLAKE3 for what we store, SHA-256 for what others publish.

use std::fmt;
use std::io::{self, Read};
use std::path::Path;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::Digest as _;

/// A BLAKE3 digest, written as 64 lowercase hexadecimal digits.
///
/// It names content in the store, keys of nodes and evidence documents.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Digests bytes held in memory.
    #[must_use]
    pub fn of(bytes: impl AsRef<[u8]>) -> Self {
        Self(*blake3::hash(bytes.as_ref()).as_bytes())
    }

    /// Digests the canonical JSON form of a value: compact, object keys sorted.
    #[must_use]
    pub fn of_json(value: &serde_json::Value) -> Self {
        Self::of(canonical_json(value))
    }

    /// Digests a file of any size with several threads, memory-mapped where it
    /// is large enough and can be; what cannot be mapped is read.
    pub fn of_file(path: &Path) -> io::Result<Self> {
        let mut hasher = blake3::Hasher::new();
        hasher.update_mmap_rayon(path)?;
        Ok(Self(*hasher.finalize().as_bytes()))
    }

    /// The first twelve hexadecimal digits, for people.
    #[must_use]
    pub fn short(&self) -> String {
        self.to_string()[..12].to_owned()
    }
}

/// A SHA-256 digest as published by package indexes and corpora.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sha256([u8; 32]);

impl Sha256 {
    /// Digests bytes held in memory.
    #[must_use]
    pub fn of(bytes: impl AsRef<[u8]>) -> Self {
        Self(sha2::Sha256::digest(bytes.as_ref()).into())
    }

    /// Digests everything a reader yields.
    pub fn of_reader(mut reader: impl Read) -> io::Result<Self> {
        let mut hasher = sha2::Sha256::new();
        let mut buffer = vec![0; 256 * 1024];
        loop {
            match reader.read(&mut buffer)? {
                0 => return Ok(Self(hasher.finalize().into())),
                n => hasher.update(&buffer[..n]),
            }
        }
    }

    /// Digests a file of any size.
    pub fn of_file(path: &Path) -> io::Result<Self> {
        Self::of_reader(std::fs::File::open(path)?)
    }
}

/// The text is not 64 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no digest; write its 64 hexadecimal digits, with nothing before them")]
pub struct InvalidDigest(String);

const HEX: &[u8; 16] = b"0123456789abcdef";

fn parse_hex(text: &str) -> Result<[u8; 32], InvalidDigest> {
    let invalid = || InvalidDigest(text.to_owned());
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return Err(invalid());
    }
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let digit = |c: u8| char::from(c).to_digit(16).ok_or_else(invalid);
        *byte = u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).map_err(|_| invalid())?;
    }
    Ok(bytes)
}

macro_rules! hex_digest {
    ($type:ident, $description:literal) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut text = [0; 64];
                for (pair, byte) in text.chunks_exact_mut(2).zip(self.0) {
                    pair.copy_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
                }
                // Hexadecimal digits are ASCII.
                f.write_str(std::str::from_utf8(&text).unwrap_or_default())
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $type {
            type Err = InvalidDigest;
            fn from_str(text: &str) -> Result<Self, InvalidDigest> {
                parse_hex(text).map(Self)
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?
                    .parse()
                    .map_err(de::Error::custom)
            }
        }

        impl JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "type": "string",
                    "description": $description,
                    "pattern": "^[0-9a-fA-F]{64}$",
                })
            }
        }
    };
}

hex_digest!(Digest, "A BLAKE3 digest: 64 hexadecimal digits.");
hex_digest!(Sha256, "A SHA-256 digest: 64 hexadecimal digits.");

/// Compact JSON with the keys of every object sorted by their bytes.
///
/// Two values that compare equal give the same text, whatever order their
/// keys were written in.
#[must_use]
pub fn canonical_json(value: &serde_json::Value) -> String {
    let mut text = String::new();
    write_canonical(value, &mut text);
    text
}

fn write_canonical(value: &serde_json::Value, text: &mut String) {
    use serde_json::Value;
    match value {
        Value::Array(items) => {
            text.push('[');
            for (number, item) in items.iter().enumerate() {
                if number > 0 {
                    text.push(',');
                }
                write_canonical(item, text);
            }
            text.push(']');
        }
        Value::Object(fields) => {
            let mut fields: Vec<(&String, &Value)> = fields.iter().collect();
            fields.sort_unstable_by_key(|(key, _)| *key);
            text.push('{');
            for (number, (key, item)) in fields.into_iter().enumerate() {
                if number > 0 {
                    text.push(',');
                }
                write_text(key, text);
                text.push(':');
                write_canonical(item, text);
            }
            text.push('}');
        }
        Value::String(item) => write_text(item, text),
        Value::Null | Value::Bool(_) | Value::Number(_) => text.push_str(&value.to_string()),
    }
}

/// A JSON string; most need no escapes.
fn write_text(item: &str, text: &mut String) {
    if item.bytes().all(|byte| (0x20..0x7f).contains(&byte) && byte != b'"' && byte != b'\\') {
        text.push('"');
        text.push_str(item);
        text.push('"');
    } else {
        text.push_str(&serde_json::Value::from(item).to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_digest_reads_back_what_it_prints() {
        let digest = Digest::of("abc");
        assert_eq!(digest.to_string().parse(), Ok(digest));
        assert_eq!(
            Sha256::of("abc").to_string(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }

    #[test]
    fn a_file_that_cannot_be_mapped_is_read() {
        let path = Path::new("/proc/self/status");
        assert_eq!(path.metadata().unwrap().len(), 0);
        assert_ne!(Digest::of_file(path).unwrap(), Digest::of(""));
    }

    #[test]
    fn text_that_is_no_digest_is_refused() {
        for text in ["", "ba78", &"g".repeat(64), &"é".repeat(32)] {
            assert!(text.parse::<Digest>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn the_order_of_keys_does_not_change_a_digest() {
        let one = json!({"b": {"y": 1, "x": [1, 2]}, "a": null});
        let two = json!({"a": null, "b": {"x": [1, 2], "y": 1}});
        assert_eq!(Digest::of_json(&one), Digest::of_json(&two));
        assert_eq!(canonical_json(&one), r#"{"a":null,"b":{"x":[1,2],"y":1}}"#);
    }

    #[test]
    fn canonical_text_is_what_the_usual_writer_makes_of_sorted_objects() {
        let text = "plain \" \\ \n \u{1} \u{7f} é 🦀 /";
        let value = json!({text: [text, 1.5, -3, 1e300, true, null, {}, []], "b": {"é": "", "a": text}});
        let mut sorted = value.clone();
        sorted.sort_all_objects();
        assert_eq!(canonical_json(&value), sorted.to_string());
    }
}
