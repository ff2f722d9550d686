//! What a matrix must hold before it may be printed.

use super::RenderError;
use super::words::{MODES, RUNGS, mode_label, rung};
use crate::evidence::matrix::{Matrix, MatrixRow, Quantity};

pub(super) fn check(matrix: &Matrix) -> Result<(), RenderError> {
    for row in &matrix.rows {
        check_words(row)?;
        check_cells(matrix, row)?;
        check_timings(row)?;
    }
    Ok(())
}

fn check_words(row: &MatrixRow) -> Result<(), RenderError> {
    let unknown = |what, word: &str, known: &[&str]| RenderError::UnknownWord {
        subject: row.subject.clone(),
        what,
        word: word.to_owned(),
        known: known.join(", "),
    };
    if mode_label(&row.mode).is_none() {
        return Err(unknown("mode", &row.mode, &MODES));
    }
    if rung(&row.status).is_none() {
        return Err(unknown("status", &row.status, &RUNGS));
    }
    Ok(())
}

fn check_cells(matrix: &Matrix, row: &MatrixRow) -> Result<(), RenderError> {
    let subject = &row.subject;
    if row.cells.len() != matrix.columns.len() {
        return Err(RenderError::CellCount {
            subject: subject.clone(),
            cells: row.cells.len(),
            columns: matrix.columns.len(),
        });
    }
    for (column, cell) in matrix.columns.iter().zip(&row.cells) {
        let place = || format!("column {:?}", column.key);
        let said = cell.value.as_ref().or(cell.note.as_ref());
        if said.is_none_or(|said| said.trim().is_empty()) {
            return Err(RenderError::Silent { subject: subject.clone(), place: place() });
        }
        if let Some(evidence) = cell.evidence.as_deref().filter(|path| !is_relative(path)) {
            return Err(RenderError::EvidencePath {
                subject: subject.clone(),
                place: place(),
                evidence: evidence.to_owned(),
            });
        }
    }
    Ok(())
}

fn check_timings(row: &MatrixRow) -> Result<(), RenderError> {
    for timings in &row.categories {
        for quantity in &timings.quantities {
            let place = || format!("{:?} in category {:?}", quantity.name, timings.category);
            let percentiles = percentiles(quantity);
            if percentiles.iter().flatten().any(|value| !value.is_finite()) {
                return Err(RenderError::NotANumber { subject: row.subject.clone(), place: place() });
            }
            let reason = quantity.unavailable.as_deref().unwrap_or_default();
            if percentiles.iter().all(Option::is_none) && reason.trim().is_empty() {
                return Err(RenderError::Silent { subject: row.subject.clone(), place: place() });
            }
        }
    }
    Ok(())
}

/// The percentiles of a quantity, lowest first.
pub(super) fn percentiles(quantity: &Quantity) -> [Option<f64>; 4] {
    [quantity.p50, quantity.p90, quantity.p95, quantity.p99]
}

/// Whether a path stays beside the report: no root, no drive, no scheme.
fn is_relative(path: &str) -> bool {
    let first = path.split('/').next().unwrap_or_default();
    !first.is_empty() && !first.contains([':', '\\'])
}
