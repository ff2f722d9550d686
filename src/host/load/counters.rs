//! What the kernel counts since the machine started, and what it counted
//! between two times.

use std::time::{Duration, Instant};

use super::reader::{self, CpuTicks};
use crate::evidence::Measured;

/// Counts at one time.
#[derive(Debug, Clone)]
pub(super) struct Counters {
    pub at: Instant,
    cpu: Measured<CpuTicks>,
    /// Ticks of our own processes, those that ended included.
    own: Measured<u64>,
    cpu_pressure: Measured<Duration>,
    memory_pressure: Measured<Duration>,
    throttled: Measured<u64>,
}

/// What happened between two times, as shares of it from 0 to 1.
pub(super) struct Shares {
    pub took: Duration,
    pub others: Measured<f64>,
    pub own: Measured<f64>,
    pub steal: Measured<f64>,
    pub cpu_pressure: Measured<f64>,
    pub memory_pressure: Measured<f64>,
    /// Events, not a share.
    pub throttled: Measured<u64>,
}

impl Counters {
    pub fn read() -> Self {
        Self {
            at: Instant::now(),
            cpu: reader::cpu_ticks(),
            own: reader::own_ticks(),
            cpu_pressure: reader::pressure("cpu").map(|pressure| pressure.total),
            memory_pressure: reader::pressure("memory").map(|pressure| pressure.total),
            throttled: reader::throttled(),
        }
    }

    /// What was counted since an earlier time.
    pub fn since(&self, earlier: &Self) -> Shares {
        let took = self.at - earlier.at;
        let cpu = both(&self.cpu, &earlier.cpu, |now, then| CpuTicks {
            busy: now.busy.saturating_sub(then.busy),
            stolen: now.stolen.saturating_sub(then.stolen),
            all: now.all.saturating_sub(then.all),
        });
        let own = both(&self.own, &earlier.own, |now, then| now.saturating_sub(*then));
        let waited = |now: &Measured<Duration>, then: &Measured<Duration>| {
            both(now, then, |now, then| share(now.saturating_sub(*then).as_secs_f64(), took.as_secs_f64()))
        };
        Shares {
            took,
            others: both(&cpu, &own, |cpu, own| ticks(cpu.busy.saturating_sub(*own), cpu.all)),
            own: both(&cpu, &own, |cpu, own| ticks(*own, cpu.all)),
            steal: cpu.map(|cpu| ticks(cpu.stolen, cpu.all)),
            cpu_pressure: waited(&self.cpu_pressure, &earlier.cpu_pressure),
            memory_pressure: waited(&self.memory_pressure, &earlier.memory_pressure),
            throttled: both(&self.throttled, &earlier.throttled, |now, then| now.saturating_sub(*then)),
        }
    }
}

/// Something of two values, or why one of them is not there.
fn both<A, B, T>(a: &Measured<A>, b: &Measured<B>, with: impl FnOnce(&A, &B) -> T) -> Measured<T> {
    match (a, b) {
        (Measured::Value(a), Measured::Value(b)) => Measured::Value(with(a, b)),
        (Measured::Unavailable(reason), _) | (_, Measured::Unavailable(reason)) => {
            Measured::unavailable(reason)
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "ticks between two samples are far fewer than 2^52")]
fn ticks(part: u64, all: u64) -> f64 {
    share(part as f64, all as f64)
}

fn share(part: f64, all: f64) -> f64 {
    if all > 0.0 { (part / all).clamp(0.0, 1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_used_what_was_busy_and_not_ours() {
        let none = || Measured::unavailable("no pressure");
        let then = Counters {
            at: Instant::now(),
            cpu: Measured::Value(CpuTicks { busy: 1000, stolen: 5, all: 5000 }),
            own: Measured::Value(100),
            cpu_pressure: Measured::Value(Duration::from_secs(1)),
            memory_pressure: none(),
            throttled: Measured::Value(7),
        };
        let now = Counters {
            at: then.at + Duration::from_secs(2),
            cpu: Measured::Value(CpuTicks { busy: 1180, stolen: 25, all: 5400 }),
            own: Measured::Value(200),
            cpu_pressure: Measured::Value(Duration::from_millis(1500)),
            memory_pressure: none(),
            throttled: Measured::Value(7),
        };
        let shares = now.since(&then);
        assert_eq!(shares.others, Measured::Value(0.2));
        assert_eq!(shares.own, Measured::Value(0.25));
        assert_eq!(shares.steal, Measured::Value(0.05));
        assert_eq!(shares.cpu_pressure, Measured::Value(0.25));
        assert_eq!(shares.memory_pressure, Measured::unavailable("no pressure"));
        assert_eq!(shares.throttled, Measured::Value(0));
    }
}
