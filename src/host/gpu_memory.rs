//! How much memory is in use on the GPUs.

use std::collections::BTreeMap;

use super::PROBE;
use crate::evidence::Measured;
use crate::process::output_of;

/// Bytes in use on each GPU, in the driver's order. `variables` is the
/// environment that the driver's program is asked in.
pub async fn gpu_memory_in_use(variables: &BTreeMap<String, String>) -> Measured<Vec<u64>> {
    let question = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"];
    match output_of(&question, variables, PROBE).await {
        Ok(answer) => Measured::or_unavailable(in_use(&answer), format!("nvidia-smi answered {answer:?}")),
        Err(error) => Measured::unavailable(error.to_string()),
    }
}

/// Bytes in use, from one number of MiB a line.
fn in_use(answer: &str) -> Option<Vec<u64>> {
    let mebibytes = |line: &str| line.trim().parse::<u64>().ok().map(|number| number << 20);
    let found = answer.lines().map(mebibytes).collect::<Option<Vec<_>>>()?;
    (!found.is_empty()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_of_nvidia_smi_is_the_memory_of_a_gpu() {
        assert_eq!(in_use("4\n143771\n"), Some(vec![4 << 20, 143_771 << 20]));
        assert_eq!(in_use("[N/A]"), None);
        assert_eq!(in_use(""), None);
    }

    #[tokio::test]
    async fn a_machine_without_the_drivers_program_says_so() {
        let answer = gpu_memory_in_use(&BTreeMap::new()).await;
        assert!(answer.reason().is_some(), "{answer:?}");
    }
}
