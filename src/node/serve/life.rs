//! Whether a server that loads is at work, and what it says of it.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::process::{Usage, tail, tree};

/// How often a server is looked at, at most.
const LOOK: Duration = Duration::from_secs(1);
/// The share of one processor below which a process only waits: answering
/// our questions about readiness takes less.
const AT_WORK: u32 = 20;
/// Bytes of the log's last line that are shown.
const LINE: usize = 100;

/// The signs of life of a server.
pub(super) struct Life<'a> {
    log: &'a Path,
    supervisor: u32,
    every: Duration,
    seen: Signs,
    looked: Instant,
    last_sign: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Signs {
    log_bytes: u64,
    usage: Usage,
}

impl<'a> Life<'a> {
    /// Watches the tree below a supervisor. A silence of `silent_for` is to be
    /// noticed in good time.
    pub fn new(log: &'a Path, supervisor: u32, silent_for: Duration) -> Self {
        let now = Instant::now();
        let seen = Signs::of(log, supervisor);
        Self { log, supervisor, every: LOOK.min(silent_for / 4), seen, looked: now, last_sign: now }
    }

    /// How long there has been no sign; nothing where it is not yet time to
    /// look again.
    pub fn silence(&mut self) -> Option<Duration> {
        let now = Instant::now();
        let passed = now.duration_since(self.looked);
        if passed < self.every {
            return None;
        }
        let signs = Signs::of(self.log, self.supervisor);
        if signs.show_life_since(self.seen, passed) {
            self.last_sign = now;
        }
        (self.seen, self.looked) = (signs, now);
        Some(now.duration_since(self.last_sign))
    }

    /// The last line of its log; empty where it has said nothing readable.
    pub fn last_line(&self) -> String {
        let line = if self.seen.log_bytes == 0 { String::new() } else { tail(self.log, 1, LINE) };
        line.trim().to_owned()
    }
}

impl Signs {
    fn of(log: &Path, supervisor: u32) -> Self {
        Self {
            log_bytes: fs::metadata(log).map_or(0, |found| found.len()),
            usage: Usage::of(&tree::descendants(supervisor)),
        }
    }

    /// Sums over a tree also fall, when a process of it ends: that is a sign too.
    fn show_life_since(self, before: Self, passed: Duration) -> bool {
        let at_work = || match self.usage.cpu_ms.checked_sub(before.usage.cpu_ms) {
            Some(used) => Duration::from_millis(used) * AT_WORK >= passed,
            None => true,
        };
        self.log_bytes != before.log_bytes || self.usage.read_bytes != before.usage.read_bytes || at_work()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_grows_a_file_that_is_read_and_a_busy_processor_are_signs_of_life() {
        let signs = |log_bytes, cpu_ms, read_bytes| Signs { log_bytes, usage: Usage { cpu_ms, read_bytes } };
        let before = signs(10, 100, 1000);
        for (now, lives) in [
            (signs(10, 100, 1000), false),
            (signs(10, 140, 1000), false),
            (signs(10, 150, 1000), true),
            (signs(11, 100, 1000), true),
            (signs(10, 100, 1001), true),
            (signs(10, 0, 1000), true),
        ] {
            assert_eq!(now.show_life_since(before, Duration::from_secs(1)), lives);
        }
    }

    #[test]
    fn silence_grows_while_nothing_happens_and_ends_with_a_line() {
        let log = tempfile::NamedTempFile::new().unwrap();
        let mut life = Life::new(log.path(), u32::MAX, Duration::from_millis(4));
        assert_eq!(life.last_line(), "");
        std::thread::sleep(Duration::from_millis(20));
        assert!(life.silence().unwrap() >= Duration::from_millis(20));
        fs::write(log.path(), "load_tensors: 3 of 30\n").unwrap();
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(life.silence(), Some(Duration::ZERO));
        assert_eq!(life.last_line(), "load_tensors: 3 of 30");
    }
}
