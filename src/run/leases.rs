//! The leases of a run: its processes, written into the project's state.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use super::timestamp;
use crate::process::tree::boot_id;
use crate::process::{Held, Identity, LeaseError, Leases};
use crate::state::{Lease, LeaseKind, State, StateError};

/// Writes the leases of one run over a connection of its own, which is made
/// for the first child: a run that starts nothing needs none.
#[derive(Debug)]
pub struct LeaseBook {
    state_dir: PathBuf,
    run: String,
    state: Mutex<Option<State>>,
}

impl LeaseBook {
    /// The leases of a run in the state of a project.
    #[must_use]
    pub fn new(state_dir: &Path, run: &str) -> Self {
        Self { state_dir: state_dir.to_owned(), run: run.to_owned(), state: Mutex::new(None) }
    }

    fn rows(&self, node: &str, child: Held) -> Result<[Lease; 2], LeaseError> {
        let boot = boot_id().map_err(|error| LeaseError(format!("this boot has no name: {error}")))?;
        let since = timestamp(Timestamp::now());
        let row = |what, Identity { pid, start_time }| Lease {
            run: self.run.clone(),
            node: node.to_owned(),
            pid,
            start_time,
            boot: boot.clone(),
            what,
            since: since.clone(),
        };
        Ok([row(LeaseKind::Supervisor, child.supervisor), row(LeaseKind::Program, child.program)])
    }

    /// The connection, open.
    fn state(&self) -> Result<MutexGuard<'_, Option<State>>, StateError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_none() {
            *state = Some(State::open(&self.state_dir)?);
        }
        Ok(state)
    }

    fn write(&self, change: impl FnOnce(&State) -> Result<(), StateError>) -> Result<(), LeaseError> {
        let state = self.state().map_err(|error| LeaseError(error.to_string()))?;
        state.as_ref().map_or(Ok(()), change).map_err(|error| LeaseError(error.to_string()))
    }
}

impl Leases for LeaseBook {
    fn begun(&self, node: &str, child: Held) -> Result<(), LeaseError> {
        let rows = self.rows(node, child)?;
        self.write(|state| state.lease(&rows))
    }

    fn ended(&self, node: &str, child: Held) {
        // A lease that stays is harmless: the next run finds nothing under it.
        let _ = self.rows(node, child).and_then(|rows| self.write(|state| state.release(&rows)));
    }
}

/// The lease of the process that carries a run out; none where `/proc` does
/// not show it, and then the run counts as killed while it goes on.
pub(super) fn own(run: &str) -> Option<Lease> {
    let Identity { pid, start_time } = Identity::of(std::process::id())?;
    Some(Lease {
        run: run.to_owned(),
        node: String::new(),
        pid,
        start_time,
        boot: boot_id().ok()?,
        what: LeaseKind::Orchestrator,
        since: timestamp(Timestamp::now()),
    })
}

/// The process that a lease names, if it can exist in this boot.
pub(super) fn named_by(lease: &Lease, boot: &str) -> Option<Identity> {
    (lease.boot == boot).then_some(Identity { pid: lease.pid, start_time: lease.start_time })
}
