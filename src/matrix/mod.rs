//! The coverage matrix as Markdown, CSV, JSON and HTML.
//!
//! It prints what the matrix says: it decides nothing, adds nothing up and
//! fills nothing in, and a matrix that leaves a cell without a value and
//! without a reason is refused. It must not know who made the matrix: no
//! nodes, no runs, no store, no files, no terminal.

mod check;
mod csv;
#[cfg(test)]
mod fixture;
mod markdown;
mod reasons;
mod shown;
mod timings;
mod view;
pub(crate) mod words;

use tera::{Context, Tera};

use crate::evidence::matrix::Matrix;
use crate::value::Digest;

use view::View;

/// The four reports of one matrix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// `coverage.md`: GitHub-flavoured Markdown, readable as it is.
    pub markdown: String,
    /// `coverage.csv`: RFC 4180, a header and one line per subject and column.
    /// An empty `value` means unavailable; `unavailable_or_note` then says why.
    pub csv: String,
    /// `coverage.json`: the matrix itself.
    pub json: String,
    /// `coverage.html`: one file that needs no other and no network.
    pub html: String,
}

/// Why a matrix cannot be rendered.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// A row does not fit the columns.
    #[error(
        "subject {subject:?} has {cells} cells for {columns} columns of the matrix; give one cell a column, in the same order"
    )]
    CellCount {
        /// The subject.
        subject: String,
        /// Cells it has.
        cells: usize,
        /// Columns of the matrix.
        columns: usize,
    },
    /// Nothing is known of a cell, or its value prints as nothing.
    #[error(
        "{place} of subject {subject:?} has neither a value nor a reason; state the value, or why it is unavailable"
    )]
    Silent {
        /// The subject.
        subject: String,
        /// Column, or category and quantity.
        place: String,
    },
    /// A percentile that is no number.
    #[error("{place} of subject {subject:?} is not a finite number; leave the percentile out and state why")]
    NotANumber {
        /// The subject.
        subject: String,
        /// Category and quantity.
        place: String,
    },
    /// A mode or status that the ladder does not know.
    #[error("subject {subject:?} has {what} {word:?}; use one of: {known}")]
    UnknownWord {
        /// The subject.
        subject: String,
        /// `mode` or `status`.
        what: &'static str,
        /// What was found.
        word: String,
        /// What is known.
        known: String,
    },
    /// Evidence that is not beside the report.
    #[error(
        "{place} of subject {subject:?} names the evidence {evidence:?}; use a path relative to the report, with / between its parts"
    )]
    EvidencePath {
        /// The subject.
        subject: String,
        /// The column.
        place: String,
        /// What was found.
        evidence: String,
    },
    /// A template of ours is wrong.
    #[error(
        "the report template could not be filled in: {0}; this is a defect of orchestrate, please report it"
    )]
    Template(#[from] tera::Error),
    /// The matrix has no JSON form.
    #[error("the matrix could not be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

const MARKDOWN: &str = include_str!("../../templates/coverage.md");
const CSS: &str = include_str!("../../templates/coverage.css");
const HTML: &str = include_str!("../../templates/coverage.html");

/// A digest of the templates: with other ones, a report is another report.
#[must_use]
pub fn templates_digest() -> Digest {
    Digest::of([MARKDOWN, CSS, HTML].concat())
}

/// Renders a matrix in all four forms, or says what is wrong with it.
pub fn render(matrix: &Matrix) -> Result<Rendered, RenderError> {
    check::check(matrix)?;
    let context = Context::from_serialize(&View::of(matrix))?;
    Ok(Rendered {
        markdown: markdown_templates()?.render("coverage.md", &context)?,
        csv: csv::csv(matrix),
        json: serde_json::to_string_pretty(matrix)? + "\n",
        html: html_templates()?.render("coverage.html", &context)?,
    })
}

/// Templates in which every value is escaped for Markdown.
fn markdown_templates() -> Result<Tera, tera::Error> {
    let mut templates = Tera::new();
    templates.set_escape_fn(markdown::escape);
    templates.autoescape_on([".md"]);
    templates.add_raw_template("coverage.md", MARKDOWN)?;
    Ok(templates)
}

/// Templates in which every value is escaped for HTML.
fn html_templates() -> Result<Tera, tera::Error> {
    let mut templates = Tera::new();
    templates.add_raw_templates([("coverage.css", CSS), ("coverage.html", HTML)])?;
    Ok(templates)
}

#[cfg(test)]
mod tests;
