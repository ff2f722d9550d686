//! Which of the measurements under its key a subject's row shows.

use crate::evidence::matrix::{Cell, ShownMeasurement};
use crate::node::{Failure, InputRecord, SubjectInputs};
use crate::store::Store;

/// Columns that say how a measurement was made, by the role that made it:
/// where there are several, they say which one is shown.
const SAYING: [(&str, &str); 3] = [("measured_at", "load"), ("warmup", "warmup"), ("hardware", "host")];

/// The measurements that a subject stands on, in the order of their roles,
/// whether they were made or reused by this run.
pub(super) fn measurements(subject: &SubjectInputs, store: &Store) -> Result<Vec<ShownMeasurement>, Failure> {
    let mut shown = Vec::new();
    for (role, (node, record)) in &subject.roles {
        if let Some((attempt, of)) = counted(record, store)? {
            shown.push(ShownMeasurement { role: role.clone(), node: node.clone(), attempt, of });
        }
    }
    Ok(shown)
}

/// The number of a node's measurement, and how many were made under its key.
fn counted(record: &InputRecord, store: &Store) -> Result<Option<(u32, u32)>, Failure> {
    let measured = record.settings.class().is_measured() && record.outcome.passed();
    let (true, Some(key), Some(evidence)) = (measured, record.key, record.evidence) else { return Ok(None) };
    let attempts = store.attempts(key)?;
    let this = attempts.iter().rev().find(|attempt| attempt.evidence == evidence);
    Ok(this.zip(attempts.last()).map(|(this, last)| (this.attempt, last.attempt)))
}

/// Adds to a cell which of several measurements it is of.
pub(super) fn said(cell: Cell, column: &str, measurements: &[ShownMeasurement]) -> Cell {
    let role = SAYING.iter().find(|(saying, _)| *saying == column).map(|(_, role)| *role);
    let measurement = measurements.iter().find(|shown| Some(shown.role.as_str()) == role);
    match measurement.filter(|shown| shown.of > 1 && cell.value.is_some()) {
        Some(ShownMeasurement { attempt, of, .. }) => {
            let said = format!("measurement {attempt} of {of} under its key");
            let note = cell.note.as_ref().map_or_else(|| said.clone(), |note| format!("{said}; {note}"));
            cell.with_note(note)
        }
        None => cell,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(attempt: u32, of: u32) -> Vec<ShownMeasurement> {
        vec![ShownMeasurement { role: "load".to_owned(), node: "load".to_owned(), attempt, of }]
    }

    #[test]
    fn a_cell_says_which_of_several_measurements_it_is_of() {
        let cell = || Cell::value("noon").with_note("took 3 s");
        let noted = said(cell(), "measured_at", &load(2, 3));
        assert_eq!(noted.note.as_deref(), Some("measurement 2 of 3 under its key; took 3 s"));
        let noted = said(Cell::value("noon"), "measured_at", &load(3, 3));
        assert_eq!(noted.note.as_deref(), Some("measurement 3 of 3 under its key"));
    }

    #[test]
    fn a_cell_says_nothing_of_the_only_measurement_or_of_another_role_s() {
        let cell = || Cell::value("noon").with_note("took 3 s");
        assert_eq!(said(cell(), "measured_at", &load(1, 1)), cell());
        assert_eq!(said(cell(), "warmup", &load(2, 3)), cell());
        assert_eq!(said(cell(), "latency", &load(2, 3)), cell());
        let absent = Cell::unavailable("it has not run yet");
        assert_eq!(said(absent.clone(), "measured_at", &load(2, 3)), absent);
    }
}
