//! Which planned turn each request was.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::evidence::request::{Phase, Planned, Sent};
use crate::value::Digest;

/// What showed that a request was a planned turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MatchedBy {
    /// The client's conversation id is the row's id; the text is compared.
    RowId,
    /// The text sent is the turn's text, byte for byte.
    Text,
}

/// The place of a planned turn and what showed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Match {
    pub turn: usize,
    pub by: MatchedBy,
}

/// Matches requests, in the order given, to planned turns.
///
/// A row id goes before a text, since two rows may hold the same text. Among
/// turns of one text the one sent least often in that phase is taken, the
/// earlier first; so n requests of a text that n rows share are n turns sent
/// once.
pub(super) fn assign(planned: &[Planned], sent: &[&Sent]) -> Vec<Option<Match>> {
    let turns = Turns::of(planned);
    let mut times: HashMap<(usize, Phase), u32> = HashMap::new();
    sent.iter()
        .map(|sent| {
            let found = turns.by_row_id(sent).or_else(|| {
                turns
                    .by_text(sent)
                    .min_by_key(|turn| (times.get(&(*turn, sent.phase)).copied(), *turn))
                    .map(|turn| Match { turn, by: MatchedBy::Text })
            })?;
            *times.entry((found.turn, sent.phase)).or_default() += 1;
            Some(found)
        })
        .collect()
}

struct Turns<'a> {
    planned: &'a [Planned],
    by_row: HashMap<(&'a str, u32), usize>,
    by_text: HashMap<Digest, Vec<usize>>,
}

impl<'a> Turns<'a> {
    fn of(planned: &'a [Planned]) -> Self {
        let mut by_row = HashMap::new();
        let mut by_text: HashMap<Digest, Vec<usize>> = HashMap::new();
        for (at, turn) in planned.iter().enumerate() {
            by_row.entry((turn.row.as_str(), turn.turn)).or_insert(at);
            by_text.entry(turn.text_digest).or_default().push(at);
        }
        Self { planned, by_row, by_text }
    }

    fn by_row_id(&self, sent: &Sent) -> Option<Match> {
        let key = (sent.conversation_id.as_deref()?, sent.turn_index?);
        self.by_row.get(&key).map(|turn| Match { turn: *turn, by: MatchedBy::RowId })
    }

    fn by_text(&self, sent: &Sent) -> impl Iterator<Item = usize> {
        let same_text = sent.text_digest.and_then(|text| self.by_text.get(&text));
        same_text
            .into_iter()
            .flatten()
            .copied()
            .filter(|turn| sent.turn_index.is_none_or(|index| self.planned[*turn].turn == index))
    }
}
