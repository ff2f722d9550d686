//! What the machine is and what it has: facts, never a panic.

mod gpu_memory;
pub mod load;
mod requirement;
mod shim;

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use serde_json::json;

pub use gpu_memory::gpu_memory_in_use;
pub use requirement::{Requirement, Unmet};

use crate::evidence::host::{Cpu, Gpu, Gpus, Host};
use crate::process::{ProbeError, find_program, output_of};
use crate::value::Digest;

const PROBE: Duration = Duration::from_secs(10);
const VECTOR_EXTENSIONS: [&str; 9] =
    ["sse4_2", "avx", "avx2", "fma", "avx512f", "avx512_bf16", "avx512_vnni", "amx_bf16", "asimd"];

/// Finds out what the machine is. `variables` is the environment that
/// programs are asked in.
pub async fn probe(variables: &BTreeMap<String, String>) -> Host {
    let (gpus, programs) = tokio::join!(gpus(variables), programs(variables));
    let cpu = cpu();
    let memory_bytes = meminfo_kib("MemTotal").unwrap_or_default() * 1024;
    let kernel = read("/proc/sys/kernel/osrelease");
    let fingerprint = Digest::of_json(&json!({
        "cpu": cpu,
        "memory_gib": memory_bytes >> 30,
        "gpus": gpus,
        "kernel": kernel,
    }));
    Host {
        schema_version: 1,
        fingerprint,
        cpu,
        memory_bytes,
        kernel,
        os: os_name(),
        gpus,
        cgroup_memory_limit_bytes: read("/sys/fs/cgroup/memory.max").parse().ok(),
        load_average: load_average(),
        programs,
    }
}

/// Load averages over 1, 5 and 15 minutes (`proc_loadavg(5)`).
#[must_use]
pub fn load_average() -> [f64; 3] {
    let text = read("/proc/loadavg");
    let mut numbers = text.split(' ').map(|number| number.parse().unwrap_or_default());
    std::array::from_fn(|_| numbers.next().unwrap_or_default())
}

fn cpu() -> Cpu {
    let info = read("/proc/cpuinfo");
    let field = |name: &str| {
        let line = info.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned())
    };
    let flags = field("flags").or_else(|| field("Features")).unwrap_or_default();
    let has = |name: &str| flags.split(' ').any(|flag| flag == name);
    Cpu {
        model: field("model name").unwrap_or_else(|| "unknown".to_owned()),
        logical: std::thread::available_parallelism().map_or(1, usize::from),
        architecture: std::env::consts::ARCH.to_owned(),
        vector_extensions: VECTOR_EXTENSIONS
            .iter()
            .filter(|name| has(name))
            .map(|name| (*name).to_owned())
            .collect(),
    }
}

async fn gpus(variables: &BTreeMap<String, String>) -> Gpus {
    let question =
        ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader,nounits"];
    match output_of(&question, variables, PROBE).await {
        Ok(answer) => match answer.lines().map(gpu).collect::<Option<Vec<_>>>() {
            Some(found) if !found.is_empty() => Gpus::Found(found),
            _ => Gpus::Unavailable(format!("nvidia-smi answered {answer:?}")),
        },
        Err(ProbeError::NotFound { .. }) => Gpus::Unavailable("there is no nvidia-smi on PATH".to_owned()),
        Err(error) => Gpus::Unavailable(error.to_string()),
    }
}

fn gpu(line: &str) -> Option<Gpu> {
    let mut fields = line.split(", ");
    let name = fields.next()?.to_owned();
    let mebibytes: u64 = fields.next()?.trim().parse().ok()?;
    Some(Gpu { name, memory_bytes: mebibytes << 20, driver: fields.next()?.trim().to_owned() })
}

async fn programs(variables: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut programs = BTreeMap::new();
    let cwd = std::env::current_dir().unwrap_or_default();
    let path = variables.get("PATH").map_or("", String::as_str);
    let behind = find_program("python3", path).and_then(|program| shim::behind(&program, &cwd));
    let python = behind.map_or_else(|| "python3".to_owned(), |program| program.display().to_string());
    if let Ok(answer) = output_of(&[&python, "--version"], variables, PROBE).await {
        programs.insert("python3".to_owned(), answer.trim_start_matches("Python ").to_owned());
    }
    programs
}

fn os_name() -> String {
    let release = read("/etc/os-release");
    let name = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.map_or_else(|| "unknown".to_owned(), |name| name.trim_matches('"').to_owned())
}

fn meminfo_kib(name: &str) -> Option<u64> {
    let info = read("/proc/meminfo");
    let line = info.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_nvidia_smi_is_a_gpu() {
        let found = gpu("NVIDIA H200, 143771, 570.86.15").unwrap();
        assert_eq!(found.name, "NVIDIA H200");
        assert_eq!(found.memory_bytes, 143_771 << 20);
        assert_eq!(gpu("No devices were found"), None);
    }

    #[tokio::test]
    async fn a_machine_without_programs_is_still_described() {
        let host = probe(&BTreeMap::new()).await;
        assert!(host.memory_bytes > 0);
        assert!(host.programs.is_empty());
        assert!(matches!(host.gpus, Gpus::Unavailable(_)));
        assert_eq!(probe(&BTreeMap::new()).await.fingerprint, host.fingerprint);
    }
}
