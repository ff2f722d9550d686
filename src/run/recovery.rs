//! What a run that was killed left behind is cleared by the next one.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::leases::named_by;
use super::{RunError, timestamp};
use crate::event::Event;
use crate::node::GRACE;
use crate::process::Identity;
use crate::process::lease::end_orphans;
use crate::process::tree::boot_id;
use crate::state::{Lease, LeaseKind, State};

/// Exit code recorded for a run that ended without saying how.
const KILLED: u8 = 137;
/// What is recorded of a node that was at work then.
const REASON: &str = "its run was killed";

/// The directory for what has to have a short path, such as sockets.
pub(super) fn scratch(run: &str) -> PathBuf {
    std::env::temp_dir().join(format!("orchestrate-{run}"))
}

/// Ends what killed runs left running, removes their work directories and
/// ends their records. What they finished is in the store. The caller holds
/// the project's lock, so no such run is alive.
pub(super) async fn recover(
    state: &State,
    state_dir: &Path,
    events: &(dyn Fn(Event) + Send + Sync),
) -> Result<(), RunError> {
    let killed = state.unfinished_runs()?;
    if !killed.is_empty() {
        state.check()?;
    }
    let mut ended = end_leased(state).await?;
    for run in killed {
        for node in fs::read_dir(state_dir.join("runs").join(&run.id)).into_iter().flatten().flatten() {
            // Most nodes have none.
            let _ = fs::remove_dir_all(node.path().join("work"));
        }
        let _ = fs::remove_dir_all(scratch(&run.id));
        let unfinished = state.end_killed_run(&run.id, &timestamp(Timestamp::now()), KILLED, REASON)?;
        let processes = ended.remove(&run.id).unwrap_or_default();
        events(Event::Recovered { run: run.id, processes, unfinished });
    }
    Ok(())
}

/// Ends every process that a lease names and forgets the leases; returns how
/// many were ended, by run.
async fn end_leased(state: &State) -> Result<BTreeMap<String, usize>, RunError> {
    let leases = state.leases()?;
    let mut ended = BTreeMap::new();
    if leases.is_empty() {
        return Ok(ended);
    }
    let boot = boot_id().map_err(RunError::Boot)?;
    for (run, held) in held_by_run(&leases, &boot) {
        ended.insert(run.to_owned(), end_orphans(&held, GRACE).await.len());
    }
    state.release(&leases)?;
    Ok(ended)
}

/// The processes that each run held below it and that can still live.
fn held_by_run<'a>(leases: &'a [Lease], boot: &str) -> BTreeMap<&'a str, Vec<Identity>> {
    let mut held: BTreeMap<&str, Vec<Identity>> = BTreeMap::new();
    for lease in leases.iter().filter(|lease| lease.what != LeaseKind::Orchestrator) {
        held.entry(&lease.run).or_default().extend(named_by(lease, boot));
    }
    held
}
