//! A Markdown table that can be read as plain text too.

use std::fmt;

/// A table with a head; every cell is one line.
pub(super) struct Table<const N: usize> {
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    /// A table without rows.
    pub fn new(head: [&str; N]) -> Self {
        Self { rows: vec![head.map(str::to_owned)] }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: [&str; N]) {
        self.rows.push(cells.map(cell));
    }

    /// Whether there is no row but the head.
    pub fn is_empty(&self) -> bool {
        self.rows.len() == 1
    }
}

/// Text on one line, with nothing that would end the cell.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

impl<const N: usize> fmt::Display for Table<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let length = |text: &String| text.chars().count();
        let width = |column: usize| self.rows.iter().map(|row| length(&row[column])).max().unwrap_or(0);
        // The last column is text of any length, so it is not filled up.
        let widths: Vec<usize> =
            (0..N).map(|column| if column + 1 < N { width(column) } else { 0 }).collect();
        for (number, row) in self.rows.iter().enumerate() {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
            let line = cells.collect::<Vec<_>>().join(" | ");
            write!(f, "{}| {line} |", if number == 0 { "" } else { "\n" })?;
            if number == 0 {
                let rules = widths.iter().map(|width| "-".repeat((*width).max(3)));
                write!(f, "\n| {} |", rules.collect::<Vec<_>>().join(" | "))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_pipes_do_not_end_a_cell() {
        let mut table = Table::new(["setting", "what"]);
        table.row(["`a`", "one | two\nlines"]);
        assert_eq!(
            table.to_string(),
            "| setting | what |\n| ------- | --- |\n| `a`     | one \\| two lines |"
        );
    }
}
