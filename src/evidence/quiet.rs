//! Whether the machine was quiet while something was measured: what was seen
//! before, during and after, and the rule that calls it busy.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Measured;

/// Up to what a machine counts as quiet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Limits {
    /// Share of all cores that processes not of this run may use on mean,
    /// from 0 to 1.
    pub others_below: f64,
    /// Share of the time that the host of a virtual machine may take on mean,
    /// from 0 to 1.
    pub steal_below: f64,
    /// Load average over one minute before the measurement; any where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_below: Option<f64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { others_below: 0.10, steal_below: 0.05, load_below: None }
    }
}

/// The machine around one measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// Up to what it counted as quiet.
    pub limits: Limits,
    /// Right before the measurement, the services it uses running.
    pub before: Moment,
    /// From its beginning to its end.
    pub during: During,
    /// Right after it.
    pub after: Moment,
    /// Why the machine was busy, one phrase each; empty when it was quiet.
    pub busy: Vec<String>,
}

/// The machine at one time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Moment {
    /// Load average over one minute.
    pub load_average: Measured<f64>,
    /// Share of the last 10 s in which some task waited for a core, from 0 to 1.
    pub cpu_pressure: Measured<f64>,
    /// Share of the last 10 s in which some task waited for memory, from 0 to 1.
    pub memory_pressure: Measured<f64>,
    /// Mean frequency of the cores in MHz.
    pub cpu_mhz: Measured<f64>,
    /// What the GPUs do.
    pub gpu: Measured<GpuUse>,
}

/// What all GPUs do at one time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GpuUse {
    /// Share of the time in which each was computing, from 0 to 1.
    pub utilisation: Vec<f64>,
    /// Clock of the multiprocessors of each in MHz.
    pub clock_mhz: Vec<f64>,
    /// Processes on them that are not of this run.
    pub others: usize,
    /// Processes on them that this machine does not show, as from within a
    /// container; nobody can say whose they are.
    pub unidentified: usize,
}

/// The machine over the time of a measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct During {
    /// Length in seconds.
    pub seconds: f64,
    /// Share of all cores that processes not of this run used, from 0 to 1.
    pub others: Measured<Spread>,
    /// Share of all cores that this run used, its servers included, from 0 to 1.
    pub own: Measured<Spread>,
    /// Share of the time that the host of a virtual machine took, from 0 to 1.
    pub steal: Measured<Spread>,
    /// Load average over one minute.
    pub load_average: Measured<Spread>,
    /// Share of the time in which some task waited for a core, from 0 to 1.
    pub cpu_pressure: Measured<f64>,
    /// Share of the time in which some task waited for memory, from 0 to 1.
    pub memory_pressure: Measured<f64>,
    /// How often a core was slowed down because it was too hot.
    pub throttled: Measured<u64>,
    /// Mean frequency of the cores in MHz.
    pub cpu_mhz: Measured<Spread>,
    /// Share of the time in which the GPUs were computing, from 0 to 1.
    pub gpu_utilisation: Measured<Spread>,
    /// Clock of the GPUs' multiprocessors in MHz.
    pub gpu_clock_mhz: Measured<Spread>,
    /// The most processes of others on the GPUs at a time.
    pub gpu_others: Measured<usize>,
}

/// Samples of one quantity.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    /// The smallest.
    pub min: f64,
    /// The mean.
    pub mean: f64,
    /// The largest.
    pub max: f64,
    /// How many there are.
    pub samples: usize,
}

impl Spread {
    /// Of these samples; nothing of none.
    #[must_use]
    pub fn of(samples: &[f64]) -> Option<Self> {
        if samples.is_empty() {
            return None;
        }
        #[expect(clippy::cast_precision_loss, reason = "a run has far fewer samples than 2^52")]
        let mean = samples.iter().sum::<f64>() / samples.len() as f64;
        Some(Self {
            min: samples.iter().copied().fold(f64::INFINITY, f64::min),
            mean,
            max: samples.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            samples: samples.len(),
        })
    }
}

impl Machine {
    /// Puts together what was seen, and says by the limits whether it was busy.
    #[must_use]
    pub fn new(limits: Limits, before: Moment, during: During, after: Moment) -> Self {
        let busy = busy(&limits, &before, &during);
        Self { limits, before, during, after, busy }
    }

    /// The machine that the evidence of a measurement shows, if it shows one.
    #[must_use]
    pub fn of(evidence: &Value) -> Option<Self> {
        serde_json::from_value(evidence.get("machine")?.clone()).ok()
    }
}

/// Why a machine counts as busy, one phrase each. What could not be seen is no
/// reason.
#[must_use]
pub fn busy(limits: &Limits, before: &Moment, during: &During) -> Vec<String> {
    let mean = |spread: &Measured<Spread>| spread.value().map(|spread| spread.mean);
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let others = mean(&during.others).filter(|used| *used >= limits.others_below);
    let steal = mean(&during.steal).filter(|taken| *taken >= limits.steal_below);
    let load = before.load_average.value().zip(limits.load_below).filter(|(load, limit)| *load >= limit);
    let throttled = during.throttled.value().filter(|times| **times > 0);
    let gpu = during.gpu_others.value().filter(|others| **others > 0);
    let reasons = [
        others.map(|used| format!("others used {} of the CPU", percent(used))),
        steal.map(|taken| format!("the host took {} of the CPU", percent(taken))),
        load.map(|(load, _)| format!("the load average was {load:.2} before")),
        throttled.map(|times| format!("cores were slowed down by heat {}", times_of(*times))),
        gpu.map(|others| match others {
            1 => "another process was on the GPU".to_owned(),
            others => format!("{others} other processes were on the GPU"),
        }),
    ];
    reasons.into_iter().flatten().collect()
}

fn times_of(count: u64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(load: f64) -> Moment {
        Moment {
            load_average: Measured::Value(load),
            cpu_pressure: Measured::unavailable("none"),
            memory_pressure: Measured::unavailable("none"),
            cpu_mhz: Measured::unavailable("none"),
            gpu: Measured::unavailable("none"),
        }
    }

    fn nothing_seen() -> During {
        let none = || Measured::unavailable("none");
        During {
            seconds: 60.0,
            others: none(),
            own: none(),
            steal: none(),
            load_average: none(),
            cpu_pressure: Measured::unavailable("none"),
            memory_pressure: Measured::unavailable("none"),
            throttled: Measured::unavailable("none"),
            cpu_mhz: none(),
            gpu_utilisation: none(),
            gpu_clock_mhz: none(),
            gpu_others: Measured::unavailable("none"),
        }
    }

    fn share(mean: f64) -> Measured<Spread> {
        Measured::Value(Spread { min: 0.0, mean, max: 1.0, samples: 60 })
    }

    #[test]
    fn each_reason_alone_makes_a_machine_busy() {
        let limits = Limits { load_below: Some(2.0), ..Limits::default() };
        let idle = nothing_seen;
        let cases: [(f64, During, &[&str]); 8] = [
            (1.0, During { others: share(0.34), ..idle() }, &["others used 34 % of the CPU"]),
            (1.0, During { others: share(0.0999), steal: share(0.049), ..idle() }, &[]),
            (1.0, During { steal: share(0.07), ..idle() }, &["the host took 7 % of the CPU"]),
            (2.5, idle(), &["the load average was 2.50 before"]),
            (
                1.0,
                During { throttled: Measured::Value(3), ..idle() },
                &["cores were slowed down by heat 3 times"],
            ),
            (1.0, During { gpu_others: Measured::Value(1), ..idle() }, &["another process was on the GPU"]),
            (1.0, During { throttled: Measured::Value(0), gpu_others: Measured::Value(0), ..idle() }, &[]),
            (1.0, idle(), &[]),
        ];
        for (load, during, reasons) in cases {
            assert_eq!(busy(&limits, &moment(load), &during), reasons, "{during:?}");
        }
        assert_eq!(busy(&Limits::default(), &moment(99.0), &idle()), [""; 0]);
    }

    #[test]
    fn a_spread_is_of_all_samples_and_of_none_there_is_none() {
        let spread = Spread::of(&[1.0, 4.0, 1.0]).unwrap();
        assert_eq!(spread, Spread { min: 1.0, mean: 2.0, max: 4.0, samples: 3 });
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn evidence_from_before_shows_no_machine() {
        let machine = Machine::new(Limits::default(), moment(0.5), nothing_seen(), moment(0.7));
        let evidence = serde_json::json!({"schema_version": 1, "machine": machine});
        assert_eq!(Machine::of(&evidence), Some(machine));
        assert_eq!(Machine::of(&serde_json::json!({"schema_version": 1})), None);
    }
}
