//! Leases: the processes that a run holds, so that the next run can end what
//! a killed one left.

use rusqlite::params;

use super::{State, StateError};

/// What a process is to its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseKind {
    /// The `orchestrate` that carries the run out.
    Orchestrator,
    /// A supervisor: it ends its whole tree when told.
    Supervisor,
    /// The program under a supervisor, in whose session it is.
    Program,
}

/// A process of a run, told apart from every other there ever was on any
/// machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The run.
    pub run: String,
    /// The node; empty for the orchestrator.
    pub node: String,
    /// Its process number.
    pub pid: u32,
    /// When it started, in clock ticks since the machine booted.
    pub start_time: u64,
    /// The boot of the machine in which that was.
    pub boot: String,
    /// What it is to the run.
    pub what: LeaseKind,
    /// When it was recorded (RFC 3339).
    pub since: String,
}

impl LeaseKind {
    const ALL: [Self; 3] = [Self::Orchestrator, Self::Supervisor, Self::Program];

    fn word(self) -> &'static str {
        match self {
            Self::Orchestrator => "orchestrator",
            Self::Supervisor => "supervisor",
            Self::Program => "program",
        }
    }
}

impl State {
    /// Records processes that a run holds, all in one durable step.
    pub fn lease(&self, leases: &[Lease]) -> Result<(), StateError> {
        self.change(|connection| {
            let mut statement = connection.prepare_cached(
                "INSERT OR REPLACE INTO leases (run, node, pid, start_time, boot, what, since)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?;
            for lease in leases {
                let start_time = i64::try_from(lease.start_time).unwrap_or(i64::MAX);
                let Lease { run, node, pid, boot, what, since, .. } = lease;
                statement.execute(params![run, node, pid, start_time, boot, what.word(), since])?;
            }
            Ok(())
        })
    }

    /// Forgets processes that have ended; those that are not known are none to
    /// forget.
    pub fn release(&self, leases: &[Lease]) -> Result<(), StateError> {
        self.change(|connection| {
            let mut statement = connection
                .prepare_cached("DELETE FROM leases WHERE boot = ?1 AND pid = ?2 AND start_time = ?3")?;
            for Lease { boot, pid, start_time, .. } in leases {
                statement.execute(params![boot, pid, i64::try_from(*start_time).unwrap_or(i64::MAX)])?;
            }
            Ok(())
        })
    }

    /// Every process that is leased, in the order they were recorded.
    pub fn leases(&self) -> Result<Vec<Lease>, StateError> {
        self.ask(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT run, node, pid, start_time, boot, what, since FROM leases ORDER BY rowid",
            )?;
            let mut rows = statement.query([])?;
            let mut leases = Vec::new();
            while let Some(row) = rows.next()? {
                let word: String = row.get(5)?;
                let what = LeaseKind::ALL.into_iter().find(|kind| kind.word() == word);
                // The table holds no other word.
                let Some(what) = what else { continue };
                leases.push(Lease {
                    run: row.get(0)?,
                    node: row.get(1)?,
                    pid: row.get(2)?,
                    start_time: row.get::<_, i64>(3)?.try_into().unwrap_or_default(),
                    boot: row.get(4)?,
                    what,
                    since: row.get(6)?,
                });
            }
            Ok(leases)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(pid: u32, start_time: u64, what: LeaseKind) -> Lease {
        Lease {
            run: "r1".to_owned(),
            node: "server".to_owned(),
            pid,
            start_time,
            boot: "b1".to_owned(),
            what,
            since: "1".to_owned(),
        }
    }

    #[test]
    fn a_lease_lasts_until_it_is_released_and_the_end_of_its_run_leaves_it() {
        let dir = tempfile::tempdir().unwrap();
        let state = State::open(dir.path()).unwrap();
        state.begin_run("r1", "p", "1").unwrap();
        let own = lease(1, 7, LeaseKind::Orchestrator);
        let held = [lease(2, 8, LeaseKind::Supervisor), lease(3, u64::from(u32::MAX), LeaseKind::Program)];
        state.lease(std::slice::from_ref(&own)).unwrap();
        state.lease(&held).unwrap();
        assert_eq!(state.leases().unwrap(), [std::slice::from_ref(&own), &held].concat());
        state.end_run("r1", "2", 0).unwrap();
        assert_eq!(state.leases().unwrap(), held);
        state.release(&held).unwrap();
        state.release(&held).unwrap();
        assert_eq!(state.leases().unwrap(), []);
    }

    #[test]
    fn the_same_number_at_another_time_is_another_process() {
        let dir = tempfile::tempdir().unwrap();
        let state = State::open(dir.path()).unwrap();
        state.begin_run("r1", "p", "1").unwrap();
        let (first, second) = (lease(2, 8, LeaseKind::Supervisor), lease(2, 9, LeaseKind::Supervisor));
        state.lease(&[first.clone(), second.clone()]).unwrap();
        state.release(&[first]).unwrap();
        assert_eq!(state.leases().unwrap(), [second]);
    }
}
