//! What a run that was killed left behind is cleared by the next one.

use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::timestamp;
use crate::state::{State, StateError};

/// Exit code recorded for a run that ended without saying how.
const KILLED: u8 = 137;

/// The directory for what has to have a short path, such as sockets.
pub(super) fn scratch(run: &str) -> PathBuf {
    std::env::temp_dir().join(format!("orchestrate-{run}"))
}

/// Ends the records of runs that were killed and removes their work
/// directories. Their processes ended with them, and what they finished is in
/// the store. The caller holds the project's lock, so no such run is alive.
pub(super) fn recover(state: &State, state_dir: &Path) -> Result<(), StateError> {
    for run in state.unfinished_runs()? {
        for node in fs::read_dir(state_dir.join("runs").join(&run)).into_iter().flatten().flatten() {
            // Most nodes have none.
            let _ = fs::remove_dir_all(node.path().join("work"));
        }
        let _ = fs::remove_dir_all(scratch(&run));
        state.end_run(&run, &timestamp(Timestamp::now()), KILLED)?;
    }
    Ok(())
}
