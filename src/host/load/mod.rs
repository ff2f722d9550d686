//! Watches the machine while something else goes on.
//!
//! What this run uses itself is told apart from what others use: the time of
//! all cores (`/proc/stat`) less the time of our own tree of processes, ended
//! ones included, because their time passes to who waited for them.

mod counters;
mod gpu;
mod reader;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::evidence::Measured;
use crate::evidence::host::Gpus;
use crate::evidence::quiet::{During, Limits, Machine, Moment, Spread};

use counters::Counters;

/// Time between two samples, where they are cheap.
const PERIOD: Duration = Duration::from_secs(1);
/// Time between two questions to the GPU driver, where they are cheap.
const GPU_PERIOD: Duration = Duration::from_secs(5);
/// Most time between two samples, however much they cost.
const RARELY: Duration = Duration::from_secs(10);
/// Of so many seconds, sampling takes one at most.
const SHARE: u32 = 1000;
/// Of so many seconds, the program that asks the driver runs one at most.
const GPU_SHARE: u32 = 100;
/// The shortest time over which the kernel's clock ticks say who used a core.
const SHORTEST: Duration = Duration::from_secs(1);
/// The shortest time that counts as a sample of its own.
const SAMPLE: Duration = Duration::from_millis(500);

/// Does some work and says how the machine was before, meanwhile and after.
/// `gpus` are those of the machine; `variables` is the environment that the
/// driver is asked in.
pub async fn watch<T>(
    limits: &Limits,
    gpus: &Gpus,
    variables: &BTreeMap<String, String>,
    work: impl Future<Output = T>,
) -> (T, Machine) {
    let mut observer = Observer::begin(gpus, variables).await;
    let mut work = std::pin::pin!(work);
    let done = loop {
        tokio::select! {
            biased;
            done = &mut work => break done,
            () = observer.look() => {}
        }
    };
    (done, observer.end(limits.clone()).await)
}

/// What was seen so far.
struct Observer<'a> {
    gpus: &'a Gpus,
    variables: &'a BTreeMap<String, String>,
    before: Moment,
    first: Counters,
    last: Counters,
    next: Instant,
    next_gpu: Instant,
    others: Vec<f64>,
    own: Vec<f64>,
    steal: Vec<f64>,
    load_average: Vec<f64>,
    cpu_mhz: Vec<f64>,
    gpu: gpu::Seen,
}

impl<'a> Observer<'a> {
    async fn begin(gpus: &'a Gpus, variables: &'a BTreeMap<String, String>) -> Self {
        let before = moment(gpus, variables).await;
        let first = Counters::read();
        let now = Instant::now();
        Self {
            gpus,
            variables,
            before,
            last: first.clone(),
            first,
            next: now + PERIOD,
            next_gpu: now + GPU_PERIOD,
            others: Vec::new(),
            own: Vec::new(),
            steal: Vec::new(),
            load_average: Vec::new(),
            cpu_mhz: Vec::new(),
            gpu: gpu::Seen::default(),
        }
    }

    /// Waits for the next sample and takes it.
    async fn look(&mut self) {
        tokio::time::sleep_until(self.next.into()).await;
        let begun = Instant::now();
        self.sample();
        self.next = Instant::now() + (begun.elapsed() * SHARE).clamp(PERIOD, RARELY);
        if matches!(self.gpus, Gpus::Found(_)) && begun >= self.next_gpu {
            let begun = Instant::now();
            self.gpu.add(&gpu::ask(self.gpus, self.variables).await);
            self.next_gpu = Instant::now() + (begun.elapsed() * GPU_SHARE).max(GPU_PERIOD);
        }
    }

    fn sample(&mut self) {
        let now = Counters::read();
        self.load_average.extend(reader::load_average().value());
        self.cpu_mhz.extend(reader::cpu_mhz().value());
        if now.at - self.last.at >= SAMPLE {
            let shares = now.since(&self.last);
            self.others.extend(shares.others.value());
            self.own.extend(shares.own.value());
            self.steal.extend(shares.steal.value());
            self.last = now;
        }
    }

    async fn end(mut self, limits: Limits) -> Machine {
        self.sample();
        let shares = Counters::read().since(&self.first);
        let after = moment(self.gpus, self.variables).await;
        self.gpu.add(&self.before.gpu);
        self.gpu.add(&after.gpu);
        let is_short = shares.took < SHORTEST;
        let spread = |samples: &[f64], whole: Measured<f64>| match whole {
            _ if is_short => Measured::unavailable("the measurement took less than 1 s, too short to tell"),
            Measured::Unavailable(reason) => Measured::Unavailable(reason),
            Measured::Value(mean) => {
                let spread = Spread::of(samples).or_else(|| Spread::of(&[mean]));
                Measured::or_unavailable(spread.map(|spread| around(mean, spread)), "no sample was taken")
            }
        };
        let during = During {
            seconds: rounded(shares.took.as_secs_f64()),
            others: spread(&self.others, shares.others).map(rounded_all),
            own: spread(&self.own, shares.own).map(rounded_all),
            steal: spread(&self.steal, shares.steal).map(rounded_all),
            load_average: sampled(&self.load_average, &self.before.load_average),
            cpu_pressure: shares.cpu_pressure.map(rounded),
            memory_pressure: shares.memory_pressure.map(rounded),
            throttled: shares.throttled,
            cpu_mhz: sampled(&self.cpu_mhz, &self.before.cpu_mhz),
            gpu_utilisation: self.gpu.spread(&after.gpu, |seen| &seen.utilisation),
            gpu_clock_mhz: self.gpu.spread(&after.gpu, |seen| &seen.clock_mhz),
            gpu_others: self.gpu.others(&after.gpu),
        };
        Machine::new(limits, self.before, during, after)
    }
}

/// Samples of unequal length, with the mean of the whole time: what came after
/// the last of them may lie outside.
fn around(mean: f64, spread: Spread) -> Spread {
    Spread { mean, min: spread.min.min(mean), max: spread.max.max(mean), ..spread }
}

/// Samples of something, or the reason why it could not be seen before.
fn sampled(samples: &[f64], before: &Measured<f64>) -> Measured<Spread> {
    match (Spread::of(samples), before.reason()) {
        (Some(spread), _) => Measured::Value(rounded_all(spread)),
        (None, reason) => Measured::unavailable(reason.unwrap_or("it could not be read any more")),
    }
}

async fn moment(gpus: &Gpus, variables: &BTreeMap<String, String>) -> Moment {
    Moment {
        load_average: reader::load_average(),
        cpu_pressure: reader::pressure("cpu").map(|pressure| rounded(pressure.last_10_s)),
        memory_pressure: reader::pressure("memory").map(|pressure| rounded(pressure.last_10_s)),
        cpu_mhz: reader::cpu_mhz().map(rounded),
        gpu: gpu::ask(gpus, variables).await,
    }
}

/// To four digits behind the point: more is noise.
fn rounded(value: f64) -> f64 {
    (value * 10_000.0).round() / 10_000.0
}

fn rounded_all(spread: Spread) -> Spread {
    let Spread { min, mean, max, samples } = spread;
    Spread { min: rounded(min), mean: rounded(mean), max: rounded(max), samples }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn watched(work: impl Future<Output = ()>) -> Machine {
        let no_gpu = Gpus::Unavailable("there is no nvidia-smi on PATH".to_owned());
        watch(&Limits::default(), &no_gpu, &BTreeMap::new(), work).await.1
    }

    #[tokio::test]
    async fn what_our_own_children_use_is_not_used_by_others() {
        let machine = watched(async {
            let mut child = tokio::process::Command::new("sh")
                .args(["-c", "sh -c 'while :; do :; done' & sleep 2.3; kill $!; wait"])
                .spawn()
                .unwrap();
            child.wait().await.unwrap();
        })
        .await;
        let own = machine.during.own.value().unwrap();
        let cores = std::thread::available_parallelism().unwrap().get();
        // A core of ours was busy, as far as others left us one.
        let least = 0.2 / f64::from(u32::try_from(cores).unwrap());
        assert!(own.mean > least && own.samples >= 1, "{machine:?}");
        assert!(machine.during.seconds > 2.0, "{machine:?}");
        assert!(machine.during.load_average.value().is_some(), "{machine:?}");
        assert_eq!(machine.before.gpu.reason(), Some("there is no nvidia-smi on PATH"));
        assert_eq!(machine.during.gpu_others.reason(), machine.before.gpu.reason());
    }

    #[tokio::test]
    async fn a_moment_is_too_short_to_say_who_used_the_cores() {
        let machine = watched(std::future::ready(())).await;
        let reason = machine.during.others.reason().unwrap();
        assert_eq!(reason, "the measurement took less than 1 s, too short to tell");
        assert_eq!(machine.busy, Vec::<String>::new());
    }
}
