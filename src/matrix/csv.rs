//! The flat table, by RFC 4180: fields in quotes where needed, lines end in CRLF.

use crate::evidence::matrix::{Column, Matrix, MatrixRow};

const HEADER: [&str; 9] =
    ["subject", "target", "mode", "status", "group", "column", "value", "unavailable_or_note", "evidence"];

/// One line per subject and column, after a header.
pub(super) fn csv(matrix: &Matrix) -> String {
    let cells = matrix
        .rows
        .iter()
        .flat_map(|row| matrix.columns.iter().enumerate().map(move |(at, column)| fields(row, column, at)));
    std::iter::once(HEADER).chain(cells).map(|fields| line(&fields)).collect()
}

fn fields<'a>(row: &'a MatrixRow, column: &'a Column, at: usize) -> [&'a str; 9] {
    let cell = row.cells.get(at);
    let field = |text: Option<&'a String>| text.map(String::as_str).unwrap_or_default();
    [
        &row.subject,
        &row.target,
        &row.mode,
        &row.status,
        &column.group,
        &column.key,
        field(cell.and_then(|cell| cell.value.as_ref())),
        field(cell.and_then(|cell| cell.note.as_ref())),
        field(cell.and_then(|cell| cell.evidence.as_ref())),
    ]
}

fn line(fields: &[&str]) -> String {
    fields.iter().map(|field| quoted(field)).collect::<Vec<_>>().join(",") + "\r\n"
}

fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}
