//! What is wrong with a corpus file, where, and what to do.

use std::fmt;

/// A corpus file that cannot be used as it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct CorpusError {
    /// Line, from 1; absent where the file as a whole is meant.
    pub line: Option<usize>,
    /// Column in bytes, from 1, where one byte is to blame.
    pub column: Option<usize>,
    /// The row's id, where it could be read.
    pub row: Option<String>,
    /// What is wrong.
    pub reason: String,
    /// What to do.
    pub help: String,
}

impl fmt::Display for CorpusError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}")?;
            if let Some(column) = self.column {
                write!(f, ", column {column}")?;
            }
            if let Some(row) = &self.row {
                write!(f, " (row {row})")?;
            }
            f.write_str(": ")?;
        }
        write!(f, "{}; {}", self.reason, self.help)
    }
}

/// A reason and a remedy, before it is known which line they belong to.
#[derive(Debug)]
pub(super) struct Problem {
    pub column: Option<usize>,
    pub row: Option<String>,
    pub reason: String,
    pub help: String,
}

impl Problem {
    pub fn new(reason: impl Into<String>, help: impl Into<String>) -> Self {
        Self { column: None, row: None, reason: reason.into(), help: help.into() }
    }

    pub fn at_column(self, column: usize) -> Self {
        Self { column: Some(column), ..self }
    }

    pub fn in_row(self, row: &str) -> Self {
        Self { row: Some(row.to_owned()), ..self }
    }

    pub fn on_line(self, line: usize) -> CorpusError {
        let Self { column, row, reason, help } = self;
        CorpusError { line: Some(line), column, row, reason, help }
    }
}
