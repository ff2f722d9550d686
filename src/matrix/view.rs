//! The matrix turned on its side for a page: one table a group of columns, one
//! line a quantity, one column a subject.

use std::borrow::Cow;

use serde::Serialize;

use super::reasons::{Reason, reason, shared_reasons};
use super::shown::Shown;
use super::timings::{Timings, timings};
use super::words::{self, RUNGS, rung};
use crate::evidence::matrix::{Cell, Matrix, MatrixRow, ShownMeasurement};

/// What the templates see.
#[derive(Serialize)]
pub(super) struct View<'a> {
    plan: &'a str,
    description: &'a str,
    statement: Statement,
    subjects: Vec<Subject<'a>>,
    groups: Vec<Group<'a>>,
    timings: Vec<Timings<'a>>,
    evidence: Vec<EvidenceFile<'a>>,
    /// Values that are shortened above, whole.
    in_full: Vec<InFull<'a>>,
}

/// What must be read before any number.
#[derive(Serialize)]
struct Statement {
    mode: &'static str,
    heading: &'static str,
    text: &'static str,
}

#[derive(Serialize)]
struct Subject<'a> {
    name: &'a str,
    target: &'a str,
    mode: &'a str,
    mode_label: &'static str,
    status: &'a str,
    is_top: bool,
    rungs: Vec<Rung>,
    reading: &'static str,
    /// Why the machine was busy, in one line; nothing when it was quiet.
    busy: Option<String>,
    missing: Vec<Missing<'a>>,
    /// Measurements beside which there are others under the same key.
    several: Vec<&'a ShownMeasurement>,
    /// Shared reasons that are not already what is missing.
    reasons: Vec<Reason<'a>>,
    cells: usize,
    /// Whether most cells have no value, so that little room is enough.
    is_narrow: bool,
}

/// What the next rung lacks.
#[derive(Serialize)]
struct Missing<'a> {
    text: &'a str,
    /// Set where it is also why many cells have no value.
    reason: Option<Reason<'a>>,
}

#[derive(Serialize)]
struct Rung {
    name: &'static str,
    /// `reached`, `current` or `ahead`.
    place: &'static str,
}

#[derive(Serialize)]
struct Group<'a> {
    title: &'a str,
    /// What stands above the table, one a subject: the cells of [`LEADING`].
    lead: Vec<CellView<'a>>,
    columns: Vec<Quantity<'a>>,
}

#[derive(Serialize)]
struct Quantity<'a> {
    key: &'a str,
    title: &'a str,
    meaning: &'a str,
    cells: Vec<CellView<'a>>,
}

#[derive(Serialize)]
struct CellView<'a> {
    subject: &'a str,
    mode_label: &'static str,
    mode: &'a str,
    value: Option<Shown<'a>>,
    note: Option<&'a str>,
    note_short: Option<Cow<'a, str>>,
    /// Set where many cells share the reason in `note`.
    reason: Option<Reason<'a>>,
    link: Option<Link>,
}

#[derive(Serialize)]
struct Link {
    /// Number of the file in the list of evidence, from 1.
    number: usize,
    href: String,
}

#[derive(Serialize)]
struct EvidenceFile<'a> {
    number: usize,
    path: &'a str,
    href: String,
    cells: usize,
}

#[derive(Serialize)]
struct InFull<'a> {
    subject: &'a str,
    title: &'a str,
    text: &'a str,
}

/// Key of the column that is read out above the table of its group: what the
/// run did is not to be overlooked among the figures.
const LEADING: &str = "generation";

impl<'a> View<'a> {
    /// Lays out a matrix that was checked.
    pub(super) fn of(matrix: &'a Matrix) -> Self {
        let evidence = evidence_files(matrix);
        let reasons = shared_reasons(matrix);
        Self {
            plan: &matrix.plan,
            description: &matrix.description,
            statement: statement(matrix),
            subjects: matrix.rows.iter().zip(&reasons).map(|(row, reasons)| subject(row, reasons)).collect(),
            groups: groups(matrix, &evidence, &reasons),
            timings: timings(matrix, mode_label),
            in_full: in_full(matrix),
            evidence,
        }
    }
}

const CORPUS_IS_NOT_SPECULATION: &str = "Choosing a speculative-decoding corpus as input does not create speculative \
     decoding: a qualified corpus input and a speculative execution are two different findings, \
     and only the second can carry an acceptance or acceleration figure.";

fn statement(matrix: &Matrix) -> Statement {
    let speculative = matrix.rows.iter().filter(|row| row.mode == "speculative").count();
    let (mode, heading) = match speculative {
        0 => ("ordinary", "Ordinary generation"),
        some if some == matrix.rows.len() => ("speculative", "Speculative mode"),
        _ => ("mixed", "Ordinary generation and speculative mode, by subject"),
    };
    Statement { mode, heading, text: CORPUS_IS_NOT_SPECULATION }
}

fn mode_label(mode: &str) -> &'static str {
    words::mode_label(mode).unwrap_or("unknown mode")
}

fn subject<'a>(row: &'a MatrixRow, reasons: &[Reason<'a>]) -> Subject<'a> {
    let current = rung(&row.status);
    let place = |at| match current {
        Some(current) if at < current => "reached",
        Some(current) if at == current => "current",
        _ => "ahead",
    };
    let missing = |text: &'a String| Missing { text, reason: shared(text, reasons) };
    let is_missing = |reason: &&Reason| row.missing.iter().any(|missing| missing == reason.text);
    Subject {
        name: &row.subject,
        target: &row.target,
        mode: &row.mode,
        mode_label: mode_label(&row.mode),
        status: &row.status,
        is_top: current == Some(RUNGS.len() - 1),
        rungs: RUNGS.iter().enumerate().map(|(at, name)| Rung { name, place: place(at) }).collect(),
        reading: reading(&row.mode, &row.status),
        busy: busy(row),
        missing: row.missing.iter().map(missing).collect(),
        several: row.measurements.iter().filter(|measurement| measurement.of > 1).collect(),
        reasons: reasons.iter().filter(|reason| !is_missing(reason)).cloned().collect(),
        cells: row.cells.len(),
        is_narrow: row.cells.iter().filter(|cell| cell.value.is_none()).count() * 2 > row.cells.len(),
    }
}

fn shared<'a>(text: &str, reasons: &[Reason<'a>]) -> Option<Reason<'a>> {
    reasons.iter().find(|reason| reason.text == text).cloned()
}

/// Why the machine was busy during the measurement, in one line.
pub(super) fn busy(row: &MatrixRow) -> Option<String> {
    (!row.busy.is_empty()).then(|| row.busy.join(", "))
}

/// What the row says in words; never more than mode and status carry.
fn reading(mode: &str, status: &str) -> &'static str {
    match (mode, status) {
        (_, "planned") => "Planned. Nothing was qualified for this subject.",
        ("ordinary", "aiperf-qualified") => "Qualified corpus input, ordinary generation.",
        ("ordinary", _) => "Corpus input not qualified yet, ordinary generation.",
        (_, "aiperf-qualified") => {
            "Qualified corpus input, speculative mode. Whether speculation was engaged and effective is a \
             finding of its own, below."
        }
        _ => "Corpus input not qualified yet, speculative mode.",
    }
}

/// Groups in the order in which they first appear.
fn groups<'a>(
    matrix: &'a Matrix,
    evidence: &[EvidenceFile<'a>],
    reasons: &[Vec<Reason<'a>>],
) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for (at, column) in matrix.columns.iter().enumerate() {
        let cells = || -> Vec<CellView<'a>> {
            let rows = matrix.rows.iter().zip(reasons);
            rows.map(|(row, reasons)| cell_view(row, &row.cells[at], evidence, reasons)).collect()
        };
        let place = groups.iter().position(|group| group.title == column.group).unwrap_or_else(|| {
            groups.push(Group { title: &column.group, lead: Vec::new(), columns: Vec::new() });
            groups.len() - 1
        });
        let group = &mut groups[place];
        let mut in_table = cells();
        if column.key == LEADING {
            group.lead = cells();
            // Each note with a value stands above the table.
            in_table.iter_mut().filter(|cell| cell.value.is_some()).for_each(|cell| cell.note = None);
        }
        group.columns.push(Quantity {
            key: &column.key,
            title: &column.title,
            meaning: &column.meaning,
            cells: in_table,
        });
    }
    groups
}

fn cell_view<'a>(
    row: &'a MatrixRow,
    cell: &'a Cell,
    evidence: &[EvidenceFile<'a>],
    reasons: &[Reason<'a>],
) -> CellView<'a> {
    let file = evidence.iter().find(|file| cell.evidence.as_deref() == Some(file.path));
    CellView {
        subject: &row.subject,
        mode_label: mode_label(&row.mode),
        mode: &row.mode,
        value: cell.value.as_deref().map(Shown::of),
        note: cell.note.as_deref(),
        note_short: cell.note.as_deref().map(|note| Shown::of(note).short),
        reason: reason(cell).and_then(|text| shared(text, reasons)),
        link: file.map(|file| Link { number: file.number, href: file.href.clone() }),
    }
}

/// Every value and note that is shown shortened.
fn in_full(matrix: &Matrix) -> Vec<InFull<'_>> {
    let mut in_full = Vec::new();
    for row in &matrix.rows {
        for (column, cell) in matrix.columns.iter().zip(&row.cells) {
            let texts = [&cell.value, &cell.note].into_iter().flatten();
            let full = texts.filter_map(|text| Shown::of(text).full);
            in_full.extend(full.map(|text| InFull { subject: &row.subject, title: &column.title, text }));
        }
    }
    in_full
}

/// Every evidence file once, in the order in which cells name them.
fn evidence_files(matrix: &Matrix) -> Vec<EvidenceFile<'_>> {
    let mut files: Vec<EvidenceFile<'_>> = Vec::new();
    let paths = matrix.rows.iter().flat_map(|row| &row.cells).filter_map(|cell| cell.evidence.as_deref());
    for path in paths {
        match files.iter_mut().find(|file| file.path == path) {
            Some(file) => file.cells += 1,
            None => files.push(EvidenceFile { number: files.len() + 1, path, href: href(path), cells: 1 }),
        }
    }
    files
}

/// A relative path as a URL reference: everything but unreserved characters
/// and `/` is percent-encoded (RFC 3986).
fn href(path: &str) -> String {
    path.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                char::from(byte).to_string()
            }
            byte => format!("%{byte:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_becomes_a_reference_that_no_format_can_misread() {
        assert_eq!(href("evidence/load[category=a b].json"), "evidence/load%5Bcategory%3Da%20b%5D.json");
        assert_eq!(href("a\"><script>|(x)\n"), "a%22%3E%3Cscript%3E%7C%28x%29%0A");
    }

    #[test]
    fn a_planned_subject_reads_as_nothing_qualified_in_either_mode() {
        assert_eq!(reading("ordinary", "planned"), reading("speculative", "planned"));
        assert!(!reading("speculative", "implemented").contains("Qualified corpus"));
    }
}
