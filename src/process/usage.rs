//! What processes have used so far: signs that they are at work.

use std::fs;

/// Clock ticks a second in `/proc`, on every architecture that Linux is built
/// for today.
const TICKS_PER_SECOND: u64 = 100;

/// What some processes have used since they began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time in user and kernel mode, in milliseconds.
    pub cpu_ms: u64,
    /// Bytes read: by calls, and from storage for mapped files. Stays 0 where
    /// the system does not show it.
    pub read_bytes: u64,
}

impl Usage {
    /// The sum over some processes; one that is gone counts nothing.
    #[must_use]
    pub fn of(pids: impl IntoIterator<Item = u32>) -> Self {
        pids.into_iter().fold(Self::default(), |sum, pid| Self {
            cpu_ms: sum.cpu_ms + cpu_ms(pid).unwrap_or_default(),
            read_bytes: sum.read_bytes + read_bytes(pid).unwrap_or_default(),
        })
    }
}

/// Fields 14 and 15 of `proc_pid_stat(5)`.
fn cpu_ms(pid: u32) -> Option<u64> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // The program's name stands in parentheses and may itself hold spaces and parentheses.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut ticks = rest.split_ascii_whitespace().skip(11).map(str::parse::<u64>);
    Some((ticks.next()?.ok()? + ticks.next()?.ok()?) * 1000 / TICKS_PER_SECOND)
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
        let me = std::process::id();
        let before = Usage::of([me]);
        let mut sum = 0_u64;
        while Usage::of([me]).cpu_ms == before.cpu_ms {
            sum = (0..10_000_000).fold(sum, |sum: u64, n| std::hint::black_box(sum.wrapping_add(n)));
        }
        assert!(Usage::of([me]).cpu_ms > before.cpu_ms);
        assert_eq!(Usage::of([u32::MAX]), Usage::default());
    }
}
