//! Whether rows fit the context that a model is served with.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::row::Row;
use super::selection::Excluded;
use super::tokenizer::{Tokenizer, TokenizerError};

/// What a conversation may use, in tokens.
///
/// A row of n turns needs, when its last turn is answered: the tokens of its
/// texts, n replies of `reserved_output_tokens`, 2 n messages of
/// `per_message_overhead`, and `per_conversation_overhead`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContextBudget {
    /// Context of one request as served.
    pub limit: u32,
    /// Most tokens of one reply (`max_tokens`).
    pub reserved_output_tokens: u32,
    /// Tokens that the chat template puts around each message.
    pub per_message_overhead: u32,
    /// Tokens that the chat template adds once, such as a system message.
    #[serde(default)]
    pub per_conversation_overhead: u32,
}

/// A row that does not fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TooLong {
    /// The row's id.
    pub id: String,
    /// Its category.
    pub category: String,
    /// Tokens of its texts alone.
    pub text_tokens: u64,
    /// Tokens needed, replies and overhead included.
    pub needed: u64,
    /// Tokens there are.
    pub limit: u32,
}

/// The outcome of [`fit`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fit {
    /// The limits it was made with.
    pub budget: ContextBudget,
    /// Ids of the rows that fit, in order.
    pub fitting: Vec<String>,
    /// The rows that do not, in order.
    pub too_long: Vec<TooLong>,
    /// Tokens of each turn's text alone, by row id.
    pub tokens: BTreeMap<String, Vec<u32>>,
}

/// Counts every row with the model's own tokenizer.
pub fn fit<'a>(
    rows: impl Iterator<Item = &'a Row>,
    tokenizer: &Tokenizer,
    budget: ContextBudget,
) -> Result<Fit, TokenizerError> {
    let mut fit = Fit { budget, fitting: Vec::new(), too_long: Vec::new(), tokens: BTreeMap::new() };
    for row in rows {
        let counts: Vec<_> = row.turns.iter().map(|turn| tokenizer.count(turn)).collect::<Result<_, _>>()?;
        let text_tokens = counts.iter().map(|count| u64::from(*count)).sum();
        let needed = budget.needed(text_tokens, counts.len() as u64);
        if needed > u64::from(budget.limit) {
            let (id, category) = (row.id.clone(), row.category.clone());
            fit.too_long.push(TooLong { id, category, text_tokens, needed, limit: budget.limit });
        } else {
            fit.fitting.push(row.id.clone());
        }
        fit.tokens.insert(row.id.clone(), counts);
    }
    Ok(fit)
}

impl ContextBudget {
    fn needed(&self, text_tokens: u64, turns: u64) -> u64 {
        let per_turn = u64::from(self.reserved_output_tokens) + 2 * u64::from(self.per_message_overhead);
        text_tokens + turns * per_turn + u64::from(self.per_conversation_overhead)
    }
}

impl Fit {
    /// The rows that do not fit, as [`Selection::without`](super::Selection::without) takes them.
    #[must_use]
    pub fn excluded(&self) -> Vec<Excluded> {
        let excluded = |row: &TooLong| Excluded {
            id: row.id.clone(),
            category: row.category.clone(),
            reason: format!(
                "needs {} tokens of context ({} of text, the rest for replies and the chat template), {} are there",
                row.needed, row.text_tokens, row.limit
            ),
        };
        self.too_long.iter().map(excluded).collect()
    }
}
