//! What goes on in a project, for those who only look.

use serde::Serialize;

use super::leases::named_by;
use crate::process::tree::boot_id;
use crate::state::{LeaseKind, RunRow, State, StateError};

/// A run that has not said how it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnfinishedRun {
    /// Its id.
    pub run: String,
    /// The plan's name.
    pub plan: String,
    /// When it began (RFC 3339).
    pub since: String,
    /// The process that carries it out; none if it was killed.
    pub pid: Option<u32>,
    /// The nodes at work, in the order they began; if it was killed, those
    /// that were.
    pub nodes: Vec<String>,
}

/// The run that goes on, if there is one, and the one that was killed, if the
/// next `apply` has yet to clear it.
pub fn unfinished_runs(state: &State) -> Result<Vec<UnfinishedRun>, StateError> {
    let leases = state.leases()?;
    let boot = boot_id().unwrap_or_default();
    let describe = |RunRow { id, plan, started_at }: RunRow| {
        let own = leases.iter().filter(|lease| lease.run == id && lease.what == LeaseKind::Orchestrator);
        let alive = own.filter_map(|lease| named_by(lease, &boot)).find(|identity| identity.is_alive());
        Ok(UnfinishedRun {
            nodes: state.running_nodes(&id)?,
            pid: alive.map(|identity| identity.pid),
            run: id,
            plan,
            since: started_at,
        })
    };
    state.unfinished_runs()?.into_iter().map(describe).collect()
}
