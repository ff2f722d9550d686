//! What processes have used so far: signs that they are at work.

use std::fs;

use super::tree::Process;

/// Clock ticks a second in `/proc`, on every architecture that Linux is built
/// for today.
const TICKS_PER_SECOND: u64 = 100;

/// What some processes have used since they began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time, with that of children that ended and were waited for,
    /// in milliseconds.
    pub cpu_ms: u64,
    /// Bytes read: by calls, and from storage for mapped files. Stays 0 where
    /// the system does not show it.
    pub read_bytes: u64,
}

impl Usage {
    /// The sum over some processes; what one has read that is gone counts nothing.
    #[must_use]
    pub fn of(processes: &[Process]) -> Self {
        processes.iter().fold(Self::default(), |sum, process| Self {
            cpu_ms: sum.cpu_ms + process.cpu_ticks * 1000 / TICKS_PER_SECOND,
            read_bytes: sum.read_bytes + read_bytes(process.identity.pid).unwrap_or_default(),
        })
    }
}

/// `rchar` and `read_bytes` of `proc_pid_io(5)`.
fn read_bytes(pid: u32) -> Option<u64> {
    let io = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    let field = |name: &str| io.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    Some(field("rchar:")? + field("read_bytes:")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_shows_in_what_a_process_has_used() {
        let mine = || Usage::of(Process::read(std::process::id()).as_slice());
        let before = mine();
        let mut sum = 0_u64;
        while mine().cpu_ms == before.cpu_ms {
            sum = (0..10_000_000).fold(sum, |sum: u64, n| std::hint::black_box(sum.wrapping_add(n)));
        }
        assert!(mine().cpu_ms > before.cpu_ms);
        assert_eq!(Usage::of(&[]), Usage::default());
    }
}
