//! One run of a project at a time.

use std::time::Duration;

use jiff::Timestamp;

use super::{Options, RunError, timestamp};
use crate::event::Event;
use crate::node::World;
use crate::state::{ApplyLock, Holder, StateError};

/// How often the lock is tried while another run holds it.
const POLL: Duration = Duration::from_millis(100);

/// Takes the project's lock. Where another run holds it, the answer is at once
/// who does, or, if the user wants to wait, that run's end. Also says whether
/// a run was waited for.
pub(super) async fn acquire(
    plan: &str,
    options: &Options,
    world: &World,
) -> Result<(ApplyLock, bool), RunError> {
    let (mut told, mut waited) = (false, false);
    loop {
        let since = timestamp(Timestamp::now());
        let holder = Holder { pid: std::process::id(), since, plan: plan.to_owned() };
        let busy = match ApplyLock::acquire(&options.state_dir, &holder) {
            Err(StateError::Busy(holder)) if options.wait => holder,
            taken => return Ok((taken?, waited)),
        };
        waited = true;
        if let Some(holder) = busy.filter(|_| !told) {
            (world.events)(Event::Waiting { holder: holder.to_string() });
            told = true;
        }
        tokio::select! {
            () = tokio::time::sleep(POLL) => {}
            () = world.cancelled.raised() => return Err(RunError::Interrupted),
        }
    }
}
