//! What a machine is: the facts a measurement depends on.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::value::Digest;

/// The machine as it was found; no name, no address, no user.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// Version of this document.
    pub schema_version: u32,
    /// Digest over the facts that decide whether a measurement may be reused.
    pub fingerprint: Digest,
    /// The processor.
    pub cpu: Cpu,
    /// Main memory in bytes.
    pub memory_bytes: u64,
    /// Kernel release.
    pub kernel: String,
    /// Name and version of the operating system.
    pub os: String,
    /// Accelerators, or why none could be seen.
    pub gpus: Gpus,
    /// Memory limit of the control group in bytes, where there is one.
    pub cgroup_memory_limit_bytes: Option<u64>,
    /// Load averages over 1, 5 and 15 minutes when probed.
    pub load_average: [f64; 3],
    /// Versions of programs found, by name.
    pub programs: BTreeMap<String, String>,
}

/// The processor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cpu {
    /// Model as the kernel names it.
    pub model: String,
    /// Logical processors this process may use.
    pub logical: usize,
    /// Architecture, such as `x86_64`.
    pub architecture: String,
    /// Vector extensions that engines choose kernels by.
    pub vector_extensions: Vec<String>,
}

/// Accelerators of a machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Gpus {
    /// What the driver lists.
    Found(Vec<Gpu>),
    /// There is none, or the driver could not be asked.
    Unavailable(String),
}

/// One accelerator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Gpu {
    /// Product name.
    pub name: String,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Driver version.
    pub driver: String,
}
