//! What the header says about the model and its tokenizer, by name.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::quantization::file_type_name;
use super::{Gguf, GgufError, Value};

/// How most weights are stored (`general.file_type`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileType {
    /// llama.cpp's number for it.
    pub number: u64,
    /// Its usual name, such as `Q4_1`; absent for a number not known here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// The facts about a model that evidence records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelSummary {
    /// Model architecture, such as `llama`.
    pub architecture: Option<String>,
    /// The model's own name.
    pub name: Option<String>,
    /// How most weights are stored.
    pub file_type: Option<FileType>,
    /// Tokens that the model was trained to attend to.
    pub context_length: Option<u64>,
    /// Number of transformer blocks.
    pub block_count: Option<u64>,
    /// Number of weights: the elements of all tensors.
    pub parameters: u64,
    /// Number of tensors.
    pub tensors: usize,
    /// Size of the file in bytes.
    pub bytes: u64,
}

/// What a token stands for (`tokenizer.ggml.token_type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// Text.
    Normal,
    /// Stands for text without a token.
    Unknown,
    /// Structure, such as the end of a turn.
    Control,
    /// Text that is always one token.
    UserDefined,
    /// A place without meaning.
    Unused,
    /// One raw byte.
    Byte,
}

/// The tokenizer that the file carries; ids index `tokens`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenizerData {
    /// Algorithm: `gpt2` is byte-level BPE.
    pub model: String,
    /// Which rules cut text into words before merging; absent in old files.
    pub pre: Option<String>,
    /// The vocabulary.
    pub tokens: Vec<String>,
    /// One kind for each token.
    pub kinds: Vec<TokenKind>,
    /// Merge rules, best first: two tokens with a space between.
    pub merges: Vec<String>,
    /// Beginning of a sequence.
    pub bos: Option<u32>,
    /// End of a sequence.
    pub eos: Option<u32>,
    /// Stands for text without a token.
    pub unknown: Option<u32>,
    /// Fills up short sequences.
    pub padding: Option<u32>,
    /// Whether a sequence starts with `bos`, where the file says so.
    pub add_bos: Option<bool>,
    /// Jinja template that turns chat messages into text.
    pub chat_template: Option<String>,
}

impl Gguf {
    /// Model architecture, the prefix of its own keys.
    #[must_use]
    pub fn architecture(&self) -> Option<&str> {
        self.text("general.architecture")
    }

    /// The model's own name.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.text("general.name")
    }

    /// How most weights are stored.
    #[must_use]
    pub fn file_type(&self) -> Option<FileType> {
        let number = self.unsigned("general.file_type")?;
        Some(FileType { number, name: file_type_name(number).map(str::to_owned) })
    }

    /// Tokens that the model was trained to attend to.
    #[must_use]
    pub fn context_length(&self) -> Option<u64> {
        self.of_architecture("context_length")
    }

    /// Number of transformer blocks.
    #[must_use]
    pub fn block_count(&self) -> Option<u64> {
        self.of_architecture("block_count")
    }

    /// Number of weights: the elements of all tensors.
    #[must_use]
    pub fn parameter_count(&self) -> u64 {
        self.tensors.iter().fold(0, |sum, tensor| sum.saturating_add(tensor.elements))
    }

    /// The facts about the model that evidence records.
    #[must_use]
    pub fn summary(&self) -> ModelSummary {
        ModelSummary {
            architecture: self.architecture().map(str::to_owned),
            name: self.name().map(str::to_owned),
            file_type: self.file_type(),
            context_length: self.context_length(),
            block_count: self.block_count(),
            parameters: self.parameter_count(),
            tensors: self.tensors.len(),
            bytes: self.bytes,
        }
    }

    /// The tokenizer that the file carries, with every id inside its vocabulary.
    pub fn tokenizer(&self) -> Result<TokenizerData, GgufError> {
        let tokens = self.texts("tokenizer.ggml.tokens")?;
        let id = |name: &str| self.token_id(name, tokens.len());
        Ok(TokenizerData {
            model: self
                .text("tokenizer.ggml.model")
                .ok_or_else(|| unusable("tokenizer.ggml.model", "expected a text"))?
                .to_owned(),
            pre: self.text("tokenizer.ggml.pre").map(str::to_owned),
            kinds: self.token_kinds(tokens.len())?,
            merges: match self.metadata.get("tokenizer.ggml.merges") {
                None => Vec::new(),
                Some(_) => self.texts("tokenizer.ggml.merges")?.to_vec(),
            },
            bos: id("bos")?,
            eos: id("eos")?,
            unknown: id("unknown")?,
            padding: id("padding")?,
            add_bos: match self.metadata.get("tokenizer.ggml.add_bos_token") {
                Some(Value::Bool(add)) => Some(*add),
                _ => None,
            },
            chat_template: self.text("tokenizer.chat_template").map(str::to_owned),
            tokens: tokens.to_vec(),
        })
    }

    fn text(&self, key: &str) -> Option<&str> {
        match self.metadata.get(key)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    fn unsigned(&self, key: &str) -> Option<u64> {
        match self.metadata.get(key)? {
            Value::Unsigned(number) => Some(*number),
            Value::Signed(number) => u64::try_from(*number).ok(),
            _ => None,
        }
    }

    fn of_architecture(&self, key: &str) -> Option<u64> {
        self.unsigned(&format!("{}.{key}", self.architecture()?))
    }

    fn texts(&self, key: &str) -> Result<&[String], GgufError> {
        match self.metadata.get(key) {
            Some(Value::Texts(texts)) => Ok(texts),
            _ => Err(unusable(key, "expected an array of texts")),
        }
    }

    fn token_id(&self, name: &str, vocabulary: usize) -> Result<Option<u32>, GgufError> {
        let key = format!("tokenizer.ggml.{name}_token_id");
        let Some(number) = self.unsigned(&key) else {
            return Ok(None);
        };
        u32::try_from(number).ok().filter(|id| (*id as usize) < vocabulary).map(Some).ok_or_else(|| {
            unusable(&key, format!("{number} is outside the vocabulary of {vocabulary} tokens"))
        })
    }

    fn token_kinds(&self, vocabulary: usize) -> Result<Vec<TokenKind>, GgufError> {
        const KEY: &str = "tokenizer.ggml.token_type";
        let kinds: Vec<_> = match self.metadata.get(KEY) {
            None => vec![TokenKind::Normal; vocabulary],
            Some(Value::Integers(numbers)) => numbers
                .iter()
                .map(|number| {
                    token_kind(*number).ok_or_else(|| unusable(KEY, format!("{number} is no kind of token")))
                })
                .collect::<Result<_, _>>()?,
            Some(_) => return Err(unusable(KEY, "expected an array of 32-bit integers")),
        };
        if kinds.len() == vocabulary {
            Ok(kinds)
        } else {
            Err(unusable(KEY, format!("it has {} entries for {vocabulary} tokens", kinds.len())))
        }
    }
}

fn token_kind(number: i64) -> Option<TokenKind> {
    Some(match number {
        0 | 1 => TokenKind::Normal,
        2 => TokenKind::Unknown,
        3 => TokenKind::Control,
        4 => TokenKind::UserDefined,
        5 => TokenKind::Unused,
        6 => TokenKind::Byte,
        _ => return None,
    })
}

fn unusable(key: &str, reason: impl Into<String>) -> GgufError {
    GgufError::Metadata { key: key.to_owned(), reason: reason.into() }
}
