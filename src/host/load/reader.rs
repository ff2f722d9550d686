//! What the kernel shows of the machine's load, each with the reason where it
//! shows nothing.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::evidence::Measured;
use crate::process::tree;

/// At most so many cores are asked for their frequency: each answer may cost
/// that core an interrupt.
const ASKED: usize = 8;
const CPUS: &str = "/sys/devices/system/cpu";

/// Time of all cores in clock ticks since the machine started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CpuTicks {
    /// Spent on work.
    pub busy: u64,
    /// Taken by the host of a virtual machine.
    pub stolen: u64,
    /// All of it.
    pub all: u64,
}

/// How long tasks had to wait for something.
#[derive(Debug, PartialEq)]
pub(super) struct Pressure {
    /// Share of the last 10 s, from 0 to 1.
    pub last_10_s: f64,
    /// Since the machine started.
    pub total: Duration,
}

pub(super) fn cpu_ticks() -> Measured<CpuTicks> {
    read("/proc/stat", "/proc/stat cannot be read", |text| stat(text.lines().next()?))
}

/// The first line of `proc_stat(5)`. The times of guests are part of those of users.
fn stat(line: &str) -> Option<CpuTicks> {
    let fields = line.strip_prefix("cpu ")?.split_ascii_whitespace();
    let ticks: Vec<u64> = fields.map(str::parse).collect::<Result<_, _>>().ok()?;
    let [user, nice, system, idle, waiting, interrupts, soft_interrupts, stolen] = *ticks.first_chunk()?;
    let busy = user + nice + system + interrupts + soft_interrupts;
    Some(CpuTicks { busy, stolen, all: busy + stolen + idle + waiting })
}

/// Clock ticks that this process and all below it used, ended ones included.
pub(super) fn own_ticks() -> Measured<u64> {
    let me = tree::Process::read(std::process::id());
    let below = || tree::descendants(std::process::id()).iter().map(|process| process.cpu_ticks).sum::<u64>();
    Measured::or_unavailable(me.map(|me| me.cpu_ticks + below()), "our own processes cannot be read")
}

pub(super) fn load_average() -> Measured<f64> {
    read("/proc/loadavg", "/proc/loadavg cannot be read", |text| text.split(' ').next()?.parse().ok())
}

/// What `/proc/pressure` shows of `cpu` or `memory`.
pub(super) fn pressure(of: &str) -> Measured<Pressure> {
    let path = format!("/proc/pressure/{of}");
    read(&path, &format!("this kernel shows no {path}"), some_pressure)
}

fn some_pressure(text: &str) -> Option<Pressure> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let field = |name: &str| line.split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
    Some(Pressure {
        last_10_s: field("avg10")?.parse::<f64>().ok()? / 100.0,
        total: Duration::from_micros(field("total")?.parse().ok()?),
    })
}

/// How often cores and processors were slowed down because they were too hot.
pub(super) fn throttled() -> Measured<u64> {
    let counts = cpus().into_iter().flat_map(|cpu| {
        ["core_throttle_count", "package_throttle_count"].map(|name| cpu.join("thermal_throttle").join(name))
    });
    let counts: Vec<u64> = counts.filter_map(|file| number(&file)).collect();
    let sum = (!counts.is_empty()).then(|| counts.iter().sum());
    Measured::or_unavailable(sum, "the processor shows no thermal_throttle counters")
}

/// Mean frequency of cores in MHz.
pub(super) fn cpu_mhz() -> Measured<f64> {
    let cpus = cpus();
    let step = cpus.len().div_ceil(ASKED).max(1);
    let files = cpus.iter().step_by(step).map(|cpu| cpu.join("cpufreq/scaling_cur_freq"));
    let kilohertz: Vec<u64> = files.filter_map(|file| number(&file)).collect();
    #[expect(clippy::cast_precision_loss, reason = "frequencies in kHz are far below 2^52")]
    let mean = kilohertz.iter().sum::<u64>() as f64 / 1000.0 / kilohertz.len().max(1) as f64;
    Measured::or_unavailable((!kilohertz.is_empty()).then_some(mean), "the processor shows no frequency")
}

/// The directories of all cores.
fn cpus() -> Vec<PathBuf> {
    let entries = fs::read_dir(CPUS).into_iter().flatten().flatten();
    let is_cpu = |name: &str| {
        let number = name.strip_prefix("cpu").unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    let cpus = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_cpu));
    cpus.map(|entry| entry.path()).collect()
}

fn number(file: &std::path::Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

fn read<T>(path: &str, reason: &str, parse: impl FnOnce(&str) -> Option<T>) -> Measured<T> {
    let text = fs::read_to_string(path).ok();
    Measured::or_unavailable(text.and_then(|text| parse(&text)), reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_all_cores_is_taken_apart() {
        let ticks = stat("cpu  100 20 30 4000 500 6 7 80 9 0").unwrap();
        assert_eq!(ticks, CpuTicks { busy: 163, stolen: 80, all: 4743 });
        assert_eq!(stat("cpu0 100 20 30 4000 500 6 7 80 9 0"), None);
        assert_eq!(stat("cpu  100 20"), None);
    }

    #[test]
    fn pressure_is_a_share_and_a_sum() {
        let text = "some avg10=12.50 avg60=0.00 avg300=0.00 total=1500000\nfull avg10=1.00 total=7\n";
        let pressure = some_pressure(text).unwrap();
        assert_eq!(pressure, Pressure { last_10_s: 0.125, total: Duration::from_millis(1500) });
        assert_eq!(some_pressure("full avg10=1.00 total=7"), None);
    }

    #[test]
    fn this_machine_counts_its_ticks_and_ours() {
        let ticks = *cpu_ticks().value().unwrap();
        assert!(ticks.all > ticks.busy, "{ticks:?}");
        assert!(own_ticks().value().is_some());
        assert!(*load_average().value().unwrap() >= 0.0);
    }
}
