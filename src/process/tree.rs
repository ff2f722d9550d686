//! Processes as `/proc` shows them: who descends from whom, and who is who.
//!
//! Field positions are those of `proc_pid_stat(5)`.

use std::collections::HashSet;
use std::fs;
use std::io;

use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// A process, told apart from a later one with the same number.
///
/// It is unique within one boot of the machine; see [`boot_id`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Identity {
    /// The process number.
    pub pid: u32,
    /// When it started, in clock ticks since the machine booted.
    pub start_time: u64,
}

impl Identity {
    /// The process that has this number now, a zombie included.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        Process::read(pid).map(|process| process.identity)
    }

    /// Whether this very process still runs; a zombie does not.
    #[must_use]
    pub fn is_alive(self) -> bool {
        Process::read(self.pid).is_some_and(|process| process.identity == self && process.is_running())
    }

    /// Sends a signal to this very process, never to a successor with its number.
    ///
    /// Returns whether it was delivered; a process that is gone or belongs to
    /// someone else gets nothing.
    pub fn signal(self, signal: Signal) -> bool {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else {
            return false;
        };
        match pidfd_open(pid, PidfdFlags::empty()) {
            // The descriptor pins whoever has the number now; only then is the start time compared.
            Ok(fd) => Self::of(self.pid) == Some(self) && pidfd_send_signal(fd, signal).is_ok(),
            Err(rustix::io::Errno::NOSYS) => {
                Self::of(self.pid) == Some(self) && kill_process(pid, signal).is_ok()
            }
            Err(_) => false,
        }
    }
}

/// One line of `/proc/PID/stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    /// Which process this is.
    pub identity: Identity,
    /// The number of its parent.
    pub parent: u32,
    /// Its process group.
    pub group: u32,
    /// Its session.
    pub session: u32,
    /// `R`, `S`, `D`, `T`, `Z` and so on.
    pub state: char,
    /// Clock ticks it used, with those of its children that ended and that it
    /// waited for.
    pub cpu_ticks: u64,
}

impl Process {
    /// Reads one process; none where it is gone.
    #[must_use]
    pub fn read(pid: u32) -> Option<Self> {
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        Self::parse(pid, &String::from_utf8_lossy(&stat))
    }

    fn parse(pid: u32, stat: &str) -> Option<Self> {
        // The program's name stands in parentheses and may itself hold spaces and parentheses.
        let (_, rest) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse().ok();
        Some(Self {
            identity: Identity { pid, start_time: fields.get(19)?.parse().ok()? },
            state: fields.first()?.chars().next()?,
            parent: number(1)?,
            group: number(2)?,
            session: number(3)?,
            cpu_ticks: fields
                .get(11..15)?
                .iter()
                .map(|ticks| ticks.parse::<u64>())
                .sum::<Result<_, _>>()
                .ok()?,
        })
    }

    /// Whether it is more than a zombie waiting for its parent.
    #[must_use]
    pub fn is_running(&self) -> bool {
        !matches!(self.state, 'Z' | 'X' | 'x')
    }
}

/// When a process started, in clock ticks since boot; none where it is gone.
#[must_use]
pub fn start_time(pid: u32) -> Option<u64> {
    Identity::of(pid).map(|identity| identity.start_time)
}

/// Every process this one may see.
#[must_use]
pub fn processes() -> Vec<Process> {
    pids().into_iter().filter_map(Process::read).collect()
}

/// The numbers of all processes this one may see.
#[must_use]
pub fn pids() -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The descendants of a process, without itself, zombies included.
///
/// A process whose parent ended belongs to the nearest ancestor that reaps
/// orphans, so below a supervisor nobody is lost.
#[must_use]
pub fn descendants(root: u32) -> Vec<Process> {
    let all = processes();
    let mut family = HashSet::from([root]);
    let mut found = Vec::new();
    loop {
        let before = found.len();
        for process in &all {
            if family.contains(&process.parent) && family.insert(process.identity.pid) {
                found.push(*process);
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

/// The processes of a session, zombies included.
#[must_use]
pub fn session_members(session: u32) -> Vec<Process> {
    processes().into_iter().filter(|process| process.session == session).collect()
}

/// How a process was started: its arguments joined by spaces, at most 300
/// characters, or its bare name in brackets where it shows no arguments.
///
/// Arguments may hold secrets: mask the text before it is shown or kept.
#[must_use]
pub fn command_of(pid: u32) -> Option<String> {
    const LIMIT: usize = 300;
    let arguments = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let text = String::from_utf8_lossy(&arguments).replace('\0', " ");
    let text = text.trim();
    if text.is_empty() {
        let name = fs::read(format!("/proc/{pid}/comm")).ok()?;
        return Some(format!("[{}]", String::from_utf8_lossy(&name).trim()));
    }
    Some(text.chars().take(LIMIT).collect())
}

/// The identifier the kernel drew when the machine booted; process numbers
/// and start times mean nothing across it.
pub fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_may_hold_spaces_and_parentheses() {
        let stat = "7 (a) b (c)) S 3 4 5 0 -1 0 0 0 0 0 11 22 33 44 20 0 1 0 99867 313 38";
        let process = Process::parse(7, stat).unwrap();
        assert_eq!(process.identity, Identity { pid: 7, start_time: 99_867 });
        assert_eq!((process.parent, process.group, process.session), (3, 4, 5));
        assert_eq!(process.cpu_ticks, 110);
        assert!(process.is_running());
        assert_eq!(Process::parse(7, "7 (cut) S 3"), None);
    }

    #[test]
    fn this_process_is_alive_and_a_namesake_of_another_time_is_not() {
        let me = Identity::of(std::process::id()).unwrap();
        assert!(me.is_alive());
        assert!(!Identity { start_time: me.start_time + 1, ..me }.is_alive());
        assert!(!Identity { start_time: me.start_time + 1, ..me }.signal(Signal::KILL));
        assert!(!Identity { pid: u32::MAX, start_time: 0 }.signal(Signal::KILL));
    }

    #[test]
    fn a_child_is_a_descendant_of_its_parent() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let mine = descendants(std::process::id());
        let found = mine.iter().any(|process| process.identity.pid == child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found);
        assert_eq!(Identity::of(child.id()), None);
    }

    #[test]
    fn the_boot_has_a_name() {
        assert_eq!(boot_id().unwrap().len(), 36);
    }
}
