//! Prompt corpora: formats, selection, manifest, tokens.
//!
//! Everything here works on bytes and paths and gives the same answer on every
//! machine. It must not know where a corpus came from, which node asks, or
//! what a plan is.

mod error;
mod fit;
mod formats;
mod manifest;
mod pretokenizer;
mod row;
mod selection;
mod tokenizer;
mod tokenizer_files;
mod write;

pub use error::CorpusError;
pub use fit::{ContextBudget, Fit, TooLong, fit};
pub use formats::{Format, PLACEHOLDER, parse};
pub use manifest::{ContextCheck, Manifest, PinnedRow, PinnedTurn, Source};
pub use row::{Row, selection_digest};
pub use selection::{Excluded, Select, SelectError, SelectedRow, Selection, Turns, select};
pub use tokenizer::{Tokenizer, TokenizerError};
pub use tokenizer_files::write_tokenizer;
pub use write::{PinnedForm, WriteError, pinned_id, write_rows};
