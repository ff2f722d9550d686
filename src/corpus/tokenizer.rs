//! Counts tokens with a model's own tokenizer.

use std::io;
use std::path::{Path, PathBuf};

use super::pretokenizer::KNOWN;
use crate::gguf::GgufError;

/// Why a tokenizer could not be made, opened or used.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    /// The model file does not carry what is needed.
    #[error(transparent)]
    Model(#[from] GgufError),
    /// Another algorithm than byte-level BPE.
    #[error(
        "unsupported tokenizer model {0:?}: only byte-level BPE (\"gpt2\") can be rebuilt; name a directory with the model's tokenizer.json"
    )]
    Algorithm(String),
    /// Rules that are not known here.
    #[error(
        "unsupported pre-tokenizer {name:?}: known are {}; name a directory with the model's tokenizer.json",
        KNOWN.join(", ")
    )]
    PreTokenizer {
        /// Its name in the model file.
        name: String,
    },
    /// Vocabulary and merges contradict each other.
    #[error("the model's vocabulary cannot be used: {0}; convert the model again")]
    Vocabulary(String),
    /// A file could not be written.
    #[error("could not write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A tokenizer file could not be used.
    #[error("could not open the tokenizer {}: {reason}; name a directory with a tokenizer.json", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A text could not be encoded.
    #[error("the tokenizer could not encode a text of {bytes} bytes: {reason}")]
    Encode {
        /// Length of the text.
        bytes: usize,
        /// What the tokenizer said.
        reason: String,
    },
}

/// A tokenizer read from a `tokenizer.json`.
#[derive(Debug)]
pub struct Tokenizer(tokenizers::Tokenizer);

impl Tokenizer {
    /// Opens the `tokenizer.json` in a directory.
    pub fn open(directory: &Path) -> Result<Self, TokenizerError> {
        let path = directory.join("tokenizer.json");
        tokenizers::Tokenizer::from_file(&path)
            .map(Self)
            .map_err(|error| TokenizerError::Open { path, reason: error.to_string() })
    }

    /// Token ids of a text alone: special tokens written out in it count as
    /// such, none is added.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        self.0
            .encode_fast(text, false)
            .map(|encoding| encoding.get_ids().to_vec())
            .map_err(|error| TokenizerError::Encode { bytes: text.len(), reason: error.to_string() })
    }

    /// Number of tokens of a text alone.
    pub fn count(&self, text: &str) -> Result<u32, TokenizerError> {
        let count = self.encode(text)?.len();
        u32::try_from(count).map_err(|_| TokenizerError::Encode {
            bytes: text.len(),
            reason: format!("{count} tokens are more than 32 bits count"),
        })
    }
}
