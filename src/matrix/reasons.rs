//! Reasons that many cells of a subject share: each stands once.

use serde::Serialize;

use crate::evidence::matrix::{Cell, Matrix, MatrixRow};

/// From so many cells on a reason stands once, beside its subject.
const MANY: usize = 4;

/// A reason that stands once for many cells of one subject.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Reason<'a> {
    /// By which its cells refer to it: `a`, `b`, … over the whole matrix.
    pub(super) mark: String,
    /// The reason, as in each of its cells.
    pub(super) text: &'a str,
    /// How many cells it holds for.
    cells: usize,
}

/// The shared reasons of every row, the most frequent first.
pub(super) fn shared_reasons(matrix: &Matrix) -> Vec<Vec<Reason<'_>>> {
    let mut marks = (0..).map(mark);
    let of_row = |row| {
        let shared = counted(row).into_iter().filter(|(_, cells)| *cells >= MANY);
        shared.zip(&mut marks).map(|((text, cells), mark)| Reason { mark, text, cells }).collect()
    };
    matrix.rows.iter().map(of_row).collect()
}

fn counted(row: &MatrixRow) -> Vec<(&str, usize)> {
    let mut counted: Vec<(&str, usize)> = Vec::new();
    for reason in row.cells.iter().filter_map(reason) {
        match counted.iter_mut().find(|(text, _)| *text == reason) {
            Some((_, cells)) => *cells += 1,
            None => counted.push((reason, 1)),
        }
    }
    counted.sort_by_key(|(_, cells)| std::cmp::Reverse(*cells));
    counted
}

/// Why a cell has no value.
pub(super) fn reason(cell: &Cell) -> Option<&str> {
    cell.note.as_deref().filter(|_| cell.value.is_none())
}

/// `a` to `z`, then `a2`, `b2`, ….
fn mark(at: usize) -> String {
    let letter = ('a'..='z').nth(at % 26).unwrap_or('z');
    match at / 26 {
        0 => letter.to_string(),
        round => format!("{letter}{}", round + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_never_repeat() {
        assert_eq!([0, 25, 26, 53].map(mark), ["a", "z", "a2", "b3"]);
    }
}
