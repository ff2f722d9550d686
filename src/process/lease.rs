//! Leases: what a run remembers of each child on disk, so that the next run
//! can end a child whose orchestrator and supervisor could not.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use rustix::process::Signal;
use tokio::time::{Instant, sleep};

use super::cgroup::Cgroup;
use super::tree::{self, Identity, Process};

/// How often processes that are being ended are looked at.
const TICK: Duration = Duration::from_millis(20);
/// How long they may resist KILL before they are given up.
const KILL_LIMIT: Duration = Duration::from_secs(5);

/// A child as a lease names it: the supervisor and the program below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// The supervisor, which leads a session of its own.
    pub supervisor: Identity,
    /// The program it supervises, in the same session.
    pub program: Identity,
}

/// A lease could not be recorded.
#[derive(Debug, thiserror::Error)]
#[error("what was started could not be recorded, so it was ended again: {0}")]
pub struct LeaseError(pub String);

/// Remembers the children of a run for as long as they live.
pub trait Leases: Send + Sync {
    /// A node has started a child. It is on disk when this returns.
    fn begun(&self, node: &str, child: Held) -> Result<(), LeaseError>;

    /// Nothing of the child runs any more. A lease that stays is harmless: it
    /// names a process that never comes back.
    fn ended(&self, node: &str, child: Held);
}

/// For a world in which nothing is started.
#[derive(Debug, Clone, Copy)]
pub struct NoLeases;

impl Leases for NoLeases {
    fn begun(&self, _: &str, _: Held) -> Result<(), LeaseError> {
        Ok(())
    }

    fn ended(&self, _: &str, _: Held) {}
}

/// Ends what still runs of children whose orchestrator is gone, given their
/// supervisors and programs: TERM, then,
/// after `grace`, KILL to their whole trees, cgroups and sessions. Every process is
/// told apart by number and start time, and a session is only touched while a
/// leased process that lives shows that it is still ours.
///
/// Returns the processes that had to be ended; one that is still
/// there after five seconds of KILL is left.
pub async fn end_orphans(held: &[Identity], grace: Duration) -> HashSet<Identity> {
    let mut known: HashSet<Identity> = HashSet::new();
    let cgroups = Cgroup::find_all(held);
    meet(held, &cgroups, &mut known);
    for &identity in held {
        // A supervisor ends its tree by itself; a stopped process takes its TERM only once it goes on.
        if known.contains(&identity) && identity.signal(Signal::TERM) {
            identity.signal(Signal::CONT);
        }
    }
    let asked = Instant::now();
    while known.iter().any(|identity| identity.is_alive()) && asked.elapsed() < grace + KILL_LIMIT {
        meet(held, &cgroups, &mut known);
        if asked.elapsed() >= grace {
            for identity in &known {
                identity.signal(Signal::KILL);
            }
            cgroups.iter().for_each(Cgroup::kill);
        }
        sleep(TICK).await;
    }
    cgroups.iter().for_each(Cgroup::remove);
    known
}

/// Adds every running process of the children's trees, cgroups and sessions.
fn meet(held: &[Identity], cgroups: &[Cgroup], known: &mut HashSet<Identity>) {
    let all = tree::processes();
    let running: HashMap<Identity, &Process> = all
        .iter()
        .filter(|process| process.is_running())
        .map(|process| (process.identity, process))
        .collect();
    let leaders: HashSet<u32> = held.iter().map(|identity| identity.pid).collect();
    let living = held.iter().filter_map(|identity| running.get(identity));
    let sessions: HashSet<u32> =
        living.clone().map(|process| process.session).filter(|session| leaders.contains(session)).collect();
    let mut ours: HashSet<u32> = living.map(|process| process.identity.pid).collect();
    loop {
        let before = ours.len();
        let belongs =
            |process: &&Process| ours.contains(&process.parent) || sessions.contains(&process.session);
        let more: Vec<u32> = all.iter().filter(belongs).map(|process| process.identity.pid).collect();
        ours.extend(more);
        if ours.len() == before {
            break;
        }
    }
    ours.extend(cgroups.iter().flat_map(Cgroup::members).map(|member| member.identity.pid));
    known.extend(running.into_keys().filter(|identity| ours.contains(&identity.pid)));
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command};

    use super::*;

    const GRACE: Duration = Duration::from_secs(2);

    fn shell(script: &str) -> Child {
        Command::new("sh").args(["-c", script]).process_group(0).spawn().unwrap()
    }

    fn identity(child: &Child) -> Identity {
        Identity::of(child.id()).unwrap()
    }

    async fn end(held: &[Identity], grace: Duration, child: &mut Child) -> HashSet<Identity> {
        let ended = end_orphans(held, grace).await;
        child.wait().unwrap();
        ended
    }

    #[tokio::test]
    async fn a_leased_process_is_ended_with_what_it_started() {
        let mut child = shell("sleep 60 & echo $!; wait");
        let family = tree::descendants(child.id());
        let ended = end(&[identity(&child)], GRACE, &mut child).await;
        assert!(
            !ended.is_empty() && ended.iter().all(|identity| !identity.is_alive()),
            "{ended:?} {family:?}"
        );
    }

    #[tokio::test]
    async fn one_that_is_stopped_or_deaf_is_killed() {
        for script in ["trap '' TERM; kill -STOP $$; sleep 60", "trap '' TERM; while :; do sleep 1; done"] {
            let mut child = shell(script);
            let held = identity(&child);
            let ended = end(&[held], Duration::from_millis(50), &mut child).await;
            assert!(ended.contains(&held));
        }
    }

    #[tokio::test]
    async fn a_process_that_only_has_the_number_is_spared() {
        let mut stranger = shell("sleep 60");
        let living = identity(&stranger);
        let earlier = Identity { start_time: living.start_time - 1, ..living };
        assert!(end_orphans(&[earlier], Duration::ZERO).await.is_empty());
        assert!(living.is_alive());
        stranger.kill().unwrap();
        stranger.wait().unwrap();
    }
}
