//! Reads the header of a GGUF model file: metadata, tensor list, nothing else.
//!
//! The format (versions 2 and 3, little-endian) is described at
//! <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>. No length in
//! the file is trusted: each is checked against what the file can still hold
//! before anything is allocated. This module knows no engine and no plan.

mod describe;
mod quantization;
mod read;
#[cfg(test)]
pub(crate) mod sample;

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use indexmap::IndexMap;

pub use describe::{FileType, ModelSummary, TokenKind, TokenizerData};

/// A header longer than this is refused; the largest published ones are about
/// a twentieth of it.
const HEADER_LIMIT: u64 = 512 << 20;

/// What a model file's header says.
#[derive(Debug, Clone, PartialEq)]
pub struct Gguf {
    version: u32,
    bytes: u64,
    metadata: IndexMap<String, Value>,
    tensors: Vec<Tensor>,
    data_start: u64,
}

/// A metadata value; integers of every width share one variant per sign.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// An unsigned integer of 8 to 64 bits.
    Unsigned(u64),
    /// A signed integer of 8 to 64 bits.
    Signed(i64),
    /// A float of 32 or 64 bits.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// UTF-8 text.
    Text(String),
    /// An array of texts.
    Texts(Vec<String>),
    /// An array of integers that fit 64 signed bits.
    Integers(Vec<i64>),
    /// An array of a kind that nothing here needs; only its length is kept.
    Skipped(u64),
}

/// One tensor of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// Its name, such as `blk.0.attn_q.weight`.
    pub name: String,
    /// Number of values.
    pub elements: u64,
    /// ggml's number for how the values are stored.
    pub kind: u32,
    /// First byte, counted from the start of the file.
    pub start: u64,
    /// Byte after the last one, where the size of `kind` is known; else `start`.
    pub end: u64,
}

/// Why a file cannot be used as a GGUF model.
#[derive(Debug, thiserror::Error)]
pub enum GgufError {
    /// The operating system could not read it.
    #[error("could not read the model file {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// It does not start with the four letters `GGUF`.
    #[error("this is no GGUF file: it starts with {found:02x?} instead of \"GGUF\"; name a .gguf model file")]
    NotGguf {
        /// Its first four bytes.
        found: [u8; 4],
    },
    /// A version other than 2 and 3, or a big-endian file.
    #[error("GGUF version {version} is not supported, only little-endian 2 and 3; convert the model again")]
    Version {
        /// The version as read.
        version: u32,
    },
    /// The file ends inside its header.
    #[error(
        "the model file is cut short: its header needs at least {needs} bytes ({what}), the file has {has}; fetch it again"
    )]
    HeaderCutShort {
        /// Bytes up to the end of what was being read.
        needs: u64,
        /// What was being read.
        what: String,
        /// Bytes in the file.
        has: u64,
    },
    /// The file ends before its last tensor does.
    #[error(
        "the model file is cut short: its header says that the last of its tensors ({tensors}) ends at byte {ends}, the file has {has}; fetch it again"
    )]
    TensorsCutShort {
        /// Number of tensors.
        tensors: usize,
        /// Where the last of them ends.
        ends: u64,
        /// Bytes in the file.
        has: u64,
    },
    /// The header contradicts the format.
    #[error("the model file is damaged at byte {at}: {reason}; fetch it again")]
    Damaged {
        /// Where in the file.
        at: u64,
        /// What is wrong.
        reason: String,
    },
    /// A metadata key that the caller needs is absent or of another type.
    #[error("the model file has no usable {key}: {reason}")]
    Metadata {
        /// The key.
        key: String,
        /// What was expected.
        reason: String,
    },
}

impl Gguf {
    /// Reads the header of a file and checks that its tensors are all there.
    pub fn open(path: &Path) -> Result<Self, GgufError> {
        let unreadable = |source| GgufError::Read { path: path.to_owned(), source };
        let file = File::open(path).map_err(unreadable)?;
        let bytes = file.metadata().map_err(unreadable)?.len();
        read::header(BufReader::with_capacity(1 << 20, file), bytes).map_err(|error| match error {
            read::Stop::Io(source) => unreadable(source),
            read::Stop::Gguf(error) => error,
        })
    }

    /// Reads a header from a reader of a whole file of `bytes` bytes.
    pub fn from_reader(reader: impl Read, bytes: u64) -> Result<Self, GgufError> {
        read::header(reader, bytes).map_err(|error| match error {
            read::Stop::Io(source) => GgufError::Read { path: PathBuf::new(), source },
            read::Stop::Gguf(error) => error,
        })
    }

    /// The format's version, 2 or 3.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Size of the file in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// All metadata in file order.
    #[must_use]
    pub fn metadata(&self) -> &IndexMap<String, Value> {
        &self.metadata
    }

    /// All tensors in file order.
    #[must_use]
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// First byte of the tensor data.
    #[must_use]
    pub fn data_start(&self) -> u64 {
        self.data_start
    }
}

#[cfg(test)]
mod tests {
    use super::sample::Sample;
    use super::*;

    fn parse(bytes: &[u8]) -> Result<Gguf, GgufError> {
        Gguf::from_reader(bytes, bytes.len() as u64)
    }

    #[test]
    fn a_model_is_described_by_its_header() {
        let bytes = Sample::tiny_llama().build();
        let summary = parse(&bytes).unwrap().summary();
        insta::assert_snapshot!(serde_json::to_string_pretty(&summary).unwrap(), @r#"
        {
          "architecture": "llama",
          "name": "tiny",
          "file_type": {
            "number": 3,
            "name": "Q4_1"
          },
          "context_length": 64,
          "block_count": 2,
          "parameters": 68,
          "tensors": 2,
          "bytes": 560
        }
        "#);
    }

    #[test]
    fn a_file_cut_at_any_byte_is_refused_and_never_panics() {
        let bytes = Sample::tiny_llama().build();
        for length in 0..bytes.len() {
            let error = parse(&bytes[..length]).expect_err("a cut file was accepted");
            assert!(
                matches!(error, GgufError::HeaderCutShort { .. } | GgufError::TensorsCutShort { .. }),
                "{length}: {error}"
            );
        }
    }

    #[test]
    fn a_file_without_its_last_tensor_says_how_much_is_missing() {
        let bytes = Sample::tiny_llama().build();
        let error = parse(&bytes[..bytes.len() - 1]).unwrap_err();
        insta::assert_snapshot!(error, @"the model file is cut short: its header says that the last of its tensors (2) ends at byte 560, the file has 559; fetch it again");
    }

    #[test]
    fn any_changed_byte_gives_an_answer_and_not_a_panic() {
        let bytes = Sample::tiny_llama().build();
        for at in 0..bytes.len() {
            for value in [0, 1, 9, 0x7f, 0xff] {
                let mut changed = bytes.clone();
                changed[at] = value;
                let _ = parse(&changed).map(|gguf| (gguf.summary(), gguf.tokenizer().is_ok()));
            }
        }
    }

    #[test]
    fn a_length_that_the_file_cannot_hold_is_refused_before_it_is_allocated() {
        for claimed in [u64::MAX, u64::MAX / 2, 1 << 40] {
            let mut bytes = Sample::new().build();
            bytes[8..16].copy_from_slice(&claimed.to_le_bytes());
            assert!(matches!(parse(&bytes), Err(GgufError::HeaderCutShort { .. })));
            let text = Sample::new().raw("k", 8, &claimed.to_le_bytes()).build();
            assert!(matches!(parse(&text), Err(GgufError::HeaderCutShort { .. })));
            let array = [&8_u32.to_le_bytes()[..], &claimed.to_le_bytes()].concat();
            let array = Sample::new().raw("k", 9, &array).build();
            assert!(matches!(parse(&array), Err(GgufError::HeaderCutShort { .. })));
        }
    }

    #[test]
    fn arrays_of_arrays_are_refused() {
        let nested = [&9_u32.to_le_bytes()[..], &1_u64.to_le_bytes()].concat();
        let bytes = Sample::new().raw("deep", 9, &nested.repeat(1000)).build();
        let error = parse(&bytes).unwrap_err().to_string();
        assert!(error.contains("array of arrays"), "{error}");
    }

    #[test]
    fn what_is_not_a_supported_gguf_file_is_named() {
        let error = |bytes: &[u8]| parse(bytes).unwrap_err().to_string();
        assert!(error(b"PK\x03\x04 a zip file of some length").starts_with("this is no GGUF file"));
        for version in [0, 1, 4, 3_u32.swap_bytes()] {
            let mut bytes = Sample::new().build();
            bytes[4..8].copy_from_slice(&version.to_le_bytes());
            assert!(error(&bytes).contains("is not supported"), "{version}");
        }
        let twice = Sample::new().text("k", "a").text("k", "b").build();
        assert!(error(&twice).contains("twice"));
        let bad_utf8 = Sample::new().raw("k", 8, b"\x01\0\0\0\0\0\0\0\xff").build();
        assert!(error(&bad_utf8).contains("UTF-8"));
    }
}
