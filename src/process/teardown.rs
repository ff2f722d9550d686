//! Ending every descendant of a supervisor: TERM, then KILL.

use std::collections::{BTreeMap, HashMap, HashSet};

use rustix::process::Signal;

use super::cgroup::Cgroup;
use super::protocol::NamedProcess;
use super::tree::{self, Identity, Process};

/// How many processes a report names.
const NAMED: usize = 64;
/// How often a growing tree is looked at again before it is killed.
const STOP_ROUNDS: usize = 8;

/// The processes met while a tree was being ended.
#[derive(Default)]
pub(super) struct Teardown {
    cgroup: Option<Cgroup>,
    asked: HashSet<Identity>,
    pub(super) killed: HashSet<Identity>,
    commands: BTreeMap<Identity, String>,
    pub(super) survivors: Vec<NamedProcess>,
}

impl Teardown {
    /// Of a tree that is also held by a cgroup, where there is one.
    pub(super) fn new(cgroup: Option<Cgroup>) -> Self {
        Self { cgroup, ..Self::default() }
    }

    /// Whether the cgroup holds anybody.
    pub(super) fn is_held(&self) -> bool {
        self.cgroup.as_ref().is_some_and(|cgroup| !cgroup.members().is_empty())
    }

    /// Sends TERM to every descendant that has not had it yet.
    pub(super) fn ask_all(&mut self) {
        for process in self.look() {
            if self.asked.insert(process.identity) {
                process.identity.signal(Signal::TERM);
                // A stopped process takes its TERM only once it goes on.
                process.identity.signal(Signal::CONT);
            }
        }
    }

    /// Sends KILL to every descendant; stops them all first, so that none can
    /// start another while it is not yet its turn.
    pub(super) fn kill_all(&mut self) {
        let mut stopped = HashMap::new();
        for _ in 0..STOP_ROUNDS {
            let before = stopped.len();
            for process in self.look() {
                stopped.entry(process.identity).or_insert_with(|| {
                    process.identity.signal(Signal::STOP);
                    process.is_running()
                });
            }
            if stopped.len() == before {
                break;
            }
        }
        for (identity, was_running) in stopped {
            if identity.signal(Signal::KILL) && was_running {
                self.killed.insert(identity);
            }
        }
        // Nothing is missed by a fork at the wrong moment.
        self.cgroup.iter().for_each(Cgroup::kill);
    }

    pub(super) fn give_up(&mut self) {
        self.survivors = self
            .look()
            .iter()
            .take(NAMED)
            .map(|process| process.identity.pid)
            .map(|pid| NamedProcess { pid, command: tree::command_of(pid).unwrap_or_default() })
            .collect();
    }

    /// The descendants of now; remembers how each running one was started.
    ///
    /// Zombies are among them: one whose threads outlived its main thread
    /// still takes signals.
    fn look(&mut self) -> Vec<Process> {
        let mut family = tree::descendants(std::process::id());
        let members = self.cgroup.iter().flat_map(Cgroup::members);
        let strangers: Vec<Process> = members.filter(|member| !family.contains(member)).collect();
        family.extend(strangers);
        for process in family.iter().filter(|process| process.is_running()) {
            self.commands
                .entry(process.identity)
                .or_insert_with(|| tree::command_of(process.identity.pid).unwrap_or_default());
        }
        family
    }

    /// Gives back what held the tree.
    pub(super) fn end(&mut self) {
        self.cgroup.take().iter().for_each(Cgroup::remove);
    }

    pub(super) fn named(&self) -> Vec<NamedProcess> {
        let all = self.commands.iter().take(NAMED);
        all.map(|(identity, command)| NamedProcess { pid: identity.pid, command: command.clone() }).collect()
    }
}
