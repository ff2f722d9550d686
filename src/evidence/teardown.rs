//! How a server ended, and what shows that nothing of it is left.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Measured;
use super::service::Proof;

/// The end of a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Teardown {
    /// How its first process ended, such as `exited with 0 after it was told to stop`.
    pub ended: String,
    /// Milliseconds from the request to stop until none of its processes ran.
    pub took_ms: u64,
    /// Processes that did not end on TERM and had to be killed.
    pub killed: usize,
    /// What shows that nothing is left, each in turn.
    pub proofs: Vec<Proof>,
    /// What is left, and what to do about it, in sentences; empty where
    /// everything is gone.
    pub remains: Vec<String>,
    /// Memory in use on each GPU before the launch and after the end.
    pub gpu_memory: Measured<Vec<GpuMemory>>,
}

/// Memory in use on one GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GpuMemory {
    /// Before the launch, in bytes.
    pub before_bytes: u64,
    /// After the end, in bytes.
    pub after_bytes: u64,
}

/// More memory than this is not noise of a driver, in bytes.
const NOISE: u64 = 256 << 20;

impl GpuMemory {
    /// Whether no more is in use than before, but for noise of the driver.
    #[must_use]
    pub fn is_back(self) -> bool {
        self.after_bytes <= self.before_bytes + NOISE
    }

    /// How much more is in use than before, in MiB.
    #[must_use]
    pub fn missing_mib(self) -> u64 {
        self.after_bytes.saturating_sub(self.before_bytes) >> 20
    }
}

impl Teardown {
    /// The end of the server in few words.
    #[must_use]
    pub fn sentence(&self) -> String {
        #[expect(clippy::cast_precision_loss, reason = "milliseconds of a teardown are few")]
        let seconds = self.took_ms as f64 / 1000.0;
        let shown: Vec<&str> = self.proofs.iter().map(|proof| proof.what.as_str()).collect();
        let killed = match self.killed {
            0 => String::new(),
            1 => ", 1 process killed".to_owned(),
            many => format!(", {many} processes killed"),
        };
        format!("stopped after {seconds:.1} s{killed}; {}", shown.join(", ").replace('_', " "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_told_in_few_words() {
        let proof = |what: &str| Proof::new(what, "/proc");
        let mut teardown = Teardown {
            ended: "exited with 0 after it was told to stop".to_owned(),
            took_ms: 1230,
            killed: 0,
            proofs: vec![proof("processes_gone"), proof("port_free")],
            remains: Vec::new(),
            gpu_memory: Measured::unavailable("there is no GPU"),
        };
        assert_eq!(teardown.sentence(), "stopped after 1.2 s; processes gone, port free");
        teardown.killed = 2;
        assert_eq!(teardown.sentence(), "stopped after 1.2 s, 2 processes killed; processes gone, port free");
    }

    #[test]
    fn memory_of_a_gpu_is_back_when_no_more_is_in_use_than_a_driver_needs() {
        let memory =
            |before: u64, after: u64| GpuMemory { before_bytes: before << 20, after_bytes: after << 20 };
        assert!(memory(500, 400).is_back() && memory(500, 600).is_back());
        assert!(!memory(500, 9000).is_back());
        assert_eq!(memory(500, 9000).missing_mib(), 8500);
    }
}
