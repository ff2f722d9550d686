//! A matrix as stage F produces it: one qualified ordinary subject, and one
//! that cannot run on the machine and stays planned.

use crate::evidence::matrix::Matrix;

/// The `coverage.json` of a first run on a machine without a GPU, by real
/// keys, with the machine's own particulars left out.
pub(super) fn stage_f() -> Matrix {
    serde_json::from_str(include_str!("fixture.json")).unwrap()
}
