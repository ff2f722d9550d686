//! What was pinned: the document that names every row and turn by digest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fit::{ContextBudget, Fit, TooLong};
use super::formats::Format;
use super::row::selection_digest;
use super::selection::{Excluded, Select, SelectedRow, Selection};
use super::write::PinnedForm;
use super::write::pinned_id;
use crate::value::{Digest, Sha256};

/// A pinned corpus selection: where it came from, what it holds, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Manifest {
    /// Version of this document's form, 1.
    pub schema_version: u32,
    /// Format of the source file.
    pub format: Format,
    /// The source that answered.
    pub source: Source,
    /// Commit or data set revision of the source, as the plan states it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Licence of the texts, as the plan states it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub licence: Option<String>,
    /// Rows in the source file.
    pub rows_in_source: usize,
    /// The settings that picked the rows.
    pub select: Select,
    /// The rows, in the order in which they are sent.
    pub selected: Vec<PinnedRow>,
    /// BLAKE3 over id, category and exact text of every row and turn, in order.
    pub selection_digest: Digest,
    /// Number of turns of all rows: the number of requests that send each once.
    pub turns_total: usize,
    /// Rows that the settings ask for and that a limit keeps out.
    pub excluded: Vec<Excluded>,
    /// The check against the model's context, where one was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<ContextCheck>,
}

/// The file that a corpus was read from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Source {
    /// The source's public name, such as a URL or a package and its member.
    pub name: String,
    /// Which of the plan's sources answered, from 1.
    pub which: usize,
    /// SHA-256 of the whole file.
    pub sha256: Sha256,
    /// Size of the whole file in bytes.
    pub bytes: u64,
    /// Sources that were tried before and why they did not answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passed_over: Vec<String>,
}

/// One selected row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PinnedRow {
    /// The source's id.
    pub id: String,
    /// The id in the pinned file, where its form cannot hold the source's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pinned_id: Option<String>,
    /// The source's category.
    pub category: String,
    /// Entropy tier or sub-category, where the source has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    /// Why the row was selected.
    pub why: String,
    /// Its turns in order.
    pub turns: Vec<PinnedTurn>,
}

/// One turn of a selected row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PinnedTurn {
    /// BLAKE3 of the exact text's UTF-8 bytes.
    pub text_digest: Digest,
    /// Unicode scalar values in the text.
    pub characters: usize,
    /// Tokens of the text alone, by the model's own tokenizer, where counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u32>,
}

/// The check of every selected row against the model's context.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContextCheck {
    /// The limits it was made with.
    pub budget: ContextBudget,
    /// Rows that fit.
    pub fitting: usize,
    /// Rows that do not, with their numbers.
    pub too_long: Vec<TooLong>,
}

impl Manifest {
    /// Describes a selection that is written in `form`.
    #[must_use]
    pub fn new(
        format: Format,
        source: Source,
        select: &Select,
        selection: &Selection,
        form: PinnedForm,
    ) -> Self {
        let selected: Vec<_> = selection.rows.iter().map(|selected| pinned(selected, form)).collect();
        Self {
            schema_version: 1,
            format,
            source,
            revision: None,
            licence: None,
            rows_in_source: selection.rows_in_source,
            select: select.clone(),
            selection_digest: selection_digest(selection.rows()),
            turns_total: selected.iter().map(|row| row.turns.len()).sum(),
            selected,
            excluded: selection.excluded.clone(),
            context: None,
        }
    }

    /// Adds the token counts and the outcome of a context check.
    ///
    /// The selected rows stay; use [`Selection::without`] before pinning to
    /// leave out those that do not fit.
    #[must_use]
    pub fn with_fit(mut self, fit: &Fit) -> Self {
        for row in &mut self.selected {
            for (turn, tokens) in row.turns.iter_mut().zip(fit.tokens.get(&row.id).into_iter().flatten()) {
                turn.tokens = Some(*tokens);
            }
        }
        self.context = Some(ContextCheck {
            budget: fit.budget,
            fitting: fit.fitting.len(),
            too_long: fit.too_long.clone(),
        });
        self
    }
}

fn pinned(selected: &SelectedRow, form: PinnedForm) -> PinnedRow {
    let row = &selected.row;
    let turn = |text: &String| PinnedTurn {
        text_digest: Digest::of(text),
        characters: text.chars().count(),
        tokens: None,
    };
    PinnedRow {
        id: row.id.clone(),
        pinned_id: Some(pinned_id(form, &row.id)).filter(|id| *id != row.id),
        category: row.category.clone(),
        tier: row.tier.clone(),
        why: selected.why.clone(),
        turns: row.turns.iter().map(turn).collect(),
    }
}
