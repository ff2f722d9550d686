//! What the GPUs do, as their driver says it.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use crate::evidence::Measured;
use crate::evidence::host::Gpus;
use crate::evidence::quiet::{GpuUse, Spread};
use crate::host::PROBE;
use crate::process::{output_of, tree};

/// Asks the driver, if the machine has a GPU.
pub(super) async fn ask(gpus: &Gpus, variables: &BTreeMap<String, String>) -> Measured<GpuUse> {
    if let Gpus::Unavailable(reason) = gpus {
        return Measured::unavailable(reason);
    }
    let format = "--format=csv,noheader,nounits";
    let load = ["nvidia-smi", "--query-gpu=utilization.gpu,clocks.sm", format];
    let users = ["nvidia-smi", "--query-compute-apps=pid", format];
    let (load, users) = tokio::join!(output_of(&load, variables, PROBE), output_of(&users, variables, PROBE));
    match (load, users) {
        (Ok(load), Ok(users)) => match load.lines().map(numbers).collect::<Option<Vec<_>>>() {
            Some(load) => Measured::Value(in_use(&load, &users, &own_processes(), exists)),
            None => Measured::unavailable(format!("nvidia-smi answered {load:?}")),
        },
        (Err(error), _) | (_, Err(error)) => Measured::unavailable(error.to_string()),
    }
}

/// Utilisation as a share and clock in MHz, of one line.
fn numbers(line: &str) -> Option<(f64, f64)> {
    let (utilisation, clock) = line.split_once(',')?;
    Some((utilisation.trim().parse::<f64>().ok()? / 100.0, clock.trim().parse().ok()?))
}

fn in_use(load: &[(f64, f64)], users: &str, own: &HashSet<u32>, exists: fn(u32) -> bool) -> GpuUse {
    let users: HashSet<u32> = users.lines().filter_map(|line| line.trim().parse().ok()).collect();
    let (seen, unseen): (Vec<u32>, Vec<u32>) =
        users.into_iter().filter(|user| !own.contains(user)).partition(|user| exists(*user));
    GpuUse {
        utilisation: load.iter().map(|(utilisation, _)| *utilisation).collect(),
        clock_mhz: load.iter().map(|(_, clock)| *clock).collect(),
        others: seen.len(),
        unidentified: unseen.len(),
    }
}

fn own_processes() -> HashSet<u32> {
    tree::descendants(std::process::id()).iter().map(|process| process.identity.pid).collect()
}

fn exists(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// What was seen of the GPUs so far.
#[derive(Default)]
pub(super) struct Seen(Vec<GpuUse>);

impl Seen {
    pub fn add(&mut self, seen: &Measured<GpuUse>) {
        self.0.extend(seen.value().cloned());
    }

    /// Of all GPUs and all times; the reason of `last` where there is none.
    pub fn spread(&self, last: &Measured<GpuUse>, of: fn(&GpuUse) -> &Vec<f64>) -> Measured<Spread> {
        let samples: Vec<f64> = self.0.iter().flat_map(|seen| of(seen).iter().copied()).collect();
        Measured::or_unavailable(Spread::of(&samples).map(super::rounded_all), why_not(last))
    }

    /// The most processes of others at a time.
    pub fn others(&self, last: &Measured<GpuUse>) -> Measured<usize> {
        Measured::or_unavailable(self.0.iter().map(|seen| seen.others).max(), why_not(last))
    }
}

fn why_not(last: &Measured<GpuUse>) -> &str {
    last.reason().unwrap_or("the driver named no GPU")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_on_a_gpu_are_ours_or_of_others_or_nobody_knows_whose() {
        let load: Vec<_> = ["37, 1980", "0, 345"].into_iter().map(|line| numbers(line).unwrap()).collect();
        let seen = in_use(&load, "10\n20\n30\n20\n", &HashSet::from([10]), |pid| pid < 30);
        let expected = GpuUse {
            utilisation: vec![0.37, 0.0],
            clock_mhz: vec![1980.0, 345.0],
            others: 1,
            unidentified: 1,
        };
        assert_eq!(seen, expected);
        assert_eq!(numbers("[N/A], 345"), None);
    }

    #[test]
    fn the_most_of_others_at_a_time_counts() {
        let quiet = in_use(&[(0.1, 300.0)], "", &HashSet::new(), |_| true);
        let busy = in_use(&[(0.9, 900.0)], "7\n8", &HashSet::new(), |_| true);
        let (quiet, busy) = (Measured::Value(quiet), Measured::Value(busy));
        let mut seen = Seen::default();
        for one in [&quiet, &busy, &quiet] {
            seen.add(one);
        }
        assert_eq!(seen.others(&quiet), Measured::Value(2));
        let clocks = Spread { min: 300.0, mean: 500.0, max: 900.0, samples: 3 };
        assert_eq!(seen.spread(&quiet, |seen| &seen.clock_mhz), Measured::Value(clocks));
        let none = Measured::unavailable("there is no nvidia-smi on PATH");
        assert_eq!(Seen::default().others(&none).reason(), none.reason());
    }
}
