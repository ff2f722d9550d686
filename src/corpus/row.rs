//! One row of a corpus and the canonical bytes that digests are made of.

use std::cmp::Ordering;

use crate::value::Digest;

/// One conversation to be sent: its user turns, byte for byte as in the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The source's id; an integer is kept as its decimal digits.
    pub id: String,
    /// The source's category.
    pub category: String,
    /// Entropy tier or sub-category, where the source has one.
    pub tier: Option<String>,
    /// The user turns in order; never empty, no turn is blank.
    pub turns: Vec<String>,
}

impl Row {
    /// Characters (Unicode scalar values) of all turns together.
    #[must_use]
    pub fn characters(&self) -> usize {
        self.turns.iter().map(|turn| turn.chars().count()).sum()
    }

    /// Orders ids that are numbers by number, before all others by bytes.
    #[must_use]
    pub(super) fn compare_ids(&self, other: &Self) -> Ordering {
        match (numeric(&self.id), numeric(&other.id)) {
            (Some(left), Some(right)) => left.cmp(&right),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => self.id.cmp(&other.id),
        }
    }
}

/// An id that reads back as the same digits when written as a number.
pub(super) fn numeric(id: &str) -> Option<u64> {
    id.parse().ok().filter(|number: &u64| number.to_string() == id)
}

/// Names a selection by what is sent and in which order.
///
/// BLAKE3 over: the 25 bytes `orchestrate.selection.v1\0`; the number of
/// rows; for each row its id, its category, its number of turns, and each
/// turn's exact text. Numbers are 64-bit little-endian; a text is its length
/// in bytes, as such a number, and then its UTF-8 bytes.
#[must_use]
pub fn selection_digest<'a>(rows: impl ExactSizeIterator<Item = &'a Row>) -> Digest {
    let mut bytes = b"orchestrate.selection.v1\0".to_vec();
    push_number(&mut bytes, rows.len() as u64);
    for row in rows {
        push_text(&mut bytes, &row.id);
        push_text(&mut bytes, &row.category);
        push_turns(&mut bytes, row);
    }
    Digest::of(bytes)
}

/// The place of a row in the draw that `seed` decides.
///
/// BLAKE3 over: the 20 bytes `orchestrate.draw.v1\0`; the seed; the row's id,
/// number of turns and turns, written as in [`selection_digest`].
pub(super) fn draw(seed: u64, row: &Row) -> Digest {
    let mut bytes = b"orchestrate.draw.v1\0".to_vec();
    push_number(&mut bytes, seed);
    push_text(&mut bytes, &row.id);
    push_turns(&mut bytes, row);
    Digest::of(bytes)
}

fn push_turns(bytes: &mut Vec<u8>, row: &Row) {
    push_number(bytes, row.turns.len() as u64);
    row.turns.iter().for_each(|turn| push_text(bytes, turn));
}

fn push_text(bytes: &mut Vec<u8>, text: &str) {
    push_number(bytes, text.len() as u64);
    bytes.extend(text.as_bytes());
}

fn push_number(bytes: &mut Vec<u8>, number: u64) {
    bytes.extend(number.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str, category: &str, turns: &[&str]) -> Row {
        Row {
            id: id.into(),
            category: category.into(),
            tier: None,
            turns: turns.iter().map(|&turn| turn.to_owned()).collect(),
        }
    }

    #[test]
    fn the_canonical_bytes_are_the_documented_ones() {
        let mut bytes = b"orchestrate.selection.v1\0".to_vec();
        bytes.extend(b"\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\x0081\x01\0\0\0\0\0\0\0w");
        bytes.extend(b"\x01\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\xc3\xa9\n");
        assert_eq!(selection_digest([row("81", "w", &["é\n"])].iter()), Digest::of(bytes));
    }

    #[test]
    fn moving_text_between_fields_changes_the_digest() {
        let digest = |rows: &[Row]| selection_digest(rows.iter());
        let digests = [
            digest(&[row("1", "ab", &["c"])]),
            digest(&[row("1a", "b", &["c"])]),
            digest(&[row("1", "a", &["bc"])]),
            digest(&[row("1", "a", &["b", "c"])]),
            digest(&[row("1", "a", &["b"]), row("1", "a", &["c"])]),
            digest(&[]),
        ];
        let unique: std::collections::BTreeSet<_> = digests.iter().collect();
        assert_eq!(unique.len(), digests.len());
    }

    #[test]
    fn numbers_come_in_number_order_and_before_names() {
        let mut ids = ["b", "100", "9", "010", "a"].map(|id| row(id, "c", &["t"]));
        ids.sort_by(Row::compare_ids);
        assert_eq!(ids.map(|row| row.id), ["9", "100", "010", "a", "b"]);
    }
}
