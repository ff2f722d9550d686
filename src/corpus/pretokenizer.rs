//! The rules by which byte-level BPE vocabularies cut text into words.
//!
//! Facts from llama.cpp's `src/llama-vocab.cpp`
//! (<https://github.com/ggml-org/llama.cpp>), so that a tokenizer made here
//! gives the engine's own ids. Each pattern cuts the pieces that the one
//! before it left; what a pattern does not match stays a piece of its own.

/// How text is prepared for a vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rules {
    /// Regular expressions, applied one after the other.
    pub patterns: &'static [&'static str],
    /// Whether a word that is a token is taken whole, whatever the merges say.
    pub ignore_merges: bool,
    /// Whether a sequence starts with the `bos` token unless the file says otherwise.
    pub add_bos: bool,
}

const WORDS: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

const SMOLLM: Rules = Rules { patterns: &[r"\p{N}", WORDS], ignore_merges: false, add_bos: false };

const GPT2: Rules = Rules { patterns: &[WORDS], ignore_merges: false, add_bos: false };

const DEFAULT: Rules = Rules {
    patterns: &[r"[\p{P}\$\+<=>\^~\|]+", WORDS, r"\p{N}+", "[0-9][0-9][0-9]"],
    ignore_merges: false,
    add_bos: false,
};

const LLAMA3: Rules = Rules {
    patterns: &[
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ],
    ignore_merges: true,
    add_bos: true,
};

const QWEN2: Rules = Rules {
    patterns: &[
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ],
    ignore_merges: false,
    add_bos: false,
};

/// Names that [`rules`] knows, for the error that lists them.
pub(super) const KNOWN: [&str; 5] = ["smollm", "gpt-2", "default", "llama-bpe", "qwen2"];

/// The rules of a `tokenizer.ggml.pre` value; a file without one means `default`.
pub(super) fn rules(pre: Option<&str>) -> Option<Rules> {
    match pre {
        Some("smollm") => Some(SMOLLM),
        Some("gpt-2") => Some(GPT2),
        Some("default") | None => Some(DEFAULT),
        Some("llama-bpe") => Some(LLAMA3),
        Some("qwen2") => Some(QWEN2),
        Some(_) => None,
    }
}
