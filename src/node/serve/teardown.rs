//! What shows that nothing is left of a server.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::socket::who;
use crate::evidence::Measured;
use crate::evidence::service::Proof;
use crate::evidence::teardown::{GpuMemory, Teardown};
use crate::host::gpu_memory_in_use;
use crate::process::{Ended, Listener, SupervisorLost, listeners_of};

/// How long the kernel and the driver may take to give back what ended
/// processes had.
const GIVEN_BACK: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(50);

/// A server whose processes have ended.
pub(super) struct After<'a> {
    pub ended: Result<Ended, SupervisorLost>,
    /// From the request to stop to the end.
    pub took: Duration,
    pub port: u16,
    /// Bytes in use on each GPU before the launch.
    pub gpu_memory: Measured<Vec<u64>>,
    /// The environment that programs are asked in.
    pub variables: &'a BTreeMap<String, String>,
}

/// Looks at what is left until all is given back, for some seconds at most.
pub(super) async fn teardown(after: After<'_>) -> Teardown {
    let given_up = Instant::now() + GIVEN_BACK;
    let listener = still_listening(after.port, given_up).await;
    let gpu_memory = match after.gpu_memory {
        Measured::Value(before) => memory_after(before, after.variables, given_up).await,
        Measured::Unavailable(reason) => Measured::Unavailable(reason),
    };
    let shown = [processes(&after.ended), port(after.port, listener.as_ref())];
    let shown = shown.into_iter().chain(gpu_memory.value().map(|memory| memory_back(memory)));
    let (mut proofs, mut remains) = (Vec::new(), Vec::new());
    for proof in shown {
        match proof {
            Ok(proof) => proofs.push(proof),
            Err(left) => remains.push(left),
        }
    }
    let ended = after.ended.as_ref();
    Teardown {
        ended: ended.map_or_else(ToString::to_string, ToString::to_string),
        took_ms: u64::try_from(after.took.as_millis()).unwrap_or(u64::MAX),
        killed: ended.map_or(0, |ended| ended.killed),
        proofs,
        remains,
        gpu_memory,
    }
}

/// A proof, or a sentence on what is left.
type Shown = Result<Proof, String>;

fn processes(ended: &Result<Ended, SupervisorLost>) -> Shown {
    match ended {
        Ok(ended) if !ended.survivors.is_empty() => {
            let pids: Vec<String> = ended.survivors.iter().map(|left| left.pid.to_string()).collect();
            Err(format!(
                "processes {} of the server could not be ended; end them before you run again",
                pids.join(", ")
            ))
        }
        Ok(_) => {
            Ok(Proof::new("processes_gone", "its supervisor, which inherits every descendant, has none left"))
        }
        Err(lost) => Ok(Proof::new("processes_gone", format!("what its supervisor left was ended: {lost}"))),
    }
}

fn port(port: u16, listener: Option<&Listener>) -> Shown {
    match listener {
        None => Ok(Proof::new("port_free", format!("no socket listens on port {port}"))),
        Some(listener) => Err(format!(
            "{} listens on port {port} although the server has ended; stop it before you run again",
            who(listener)
        )),
    }
}

fn memory_back(memory: &[GpuMemory]) -> Shown {
    let kept = memory.iter().enumerate().find(|(_, memory)| !memory.is_back());
    match kept {
        None => {
            Ok(Proof::new("gpu_memory_back", "nvidia-smi shows no more memory in use than before the launch"))
        }
        Some((gpu, memory)) => Err(format!(
            "GPU {gpu} has {} MiB more in use than before the launch although the server has ended; see with \
             `nvidia-smi` who has it, and end that before you run again",
            memory.missing_mib()
        )),
    }
}

/// Who listens on the port when there is no more time to wait.
async fn still_listening(port: u16, given_up: Instant) -> Option<Listener> {
    loop {
        let listener = listeners_of(port).into_iter().next()?;
        if Instant::now() >= given_up {
            return Some(listener);
        }
        tokio::time::sleep(POLL).await;
    }
}

/// The memory in use once it is back, or when there is no more time to wait.
async fn memory_after(
    before: Vec<u64>,
    variables: &BTreeMap<String, String>,
    given_up: Instant,
) -> Measured<Vec<GpuMemory>> {
    loop {
        let now = gpu_memory_in_use(variables).await;
        let memory = now.map(|now| {
            let pairs = before.iter().zip(now);
            pairs.map(|(before, after)| GpuMemory { before_bytes: *before, after_bytes: after }).collect()
        });
        let is_back = |memory: &Vec<GpuMemory>| memory.iter().all(|memory| memory.is_back());
        if memory.value().is_none_or(is_back) || Instant::now() >= given_up {
            return memory;
        }
        tokio::time::sleep(POLL).await;
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::process::{Cause, Exit, NamedProcess};

    fn after(ended: Ended, port: u16) -> After<'static> {
        static NOTHING: BTreeMap<String, String> = BTreeMap::new();
        let gpu_memory = Measured::unavailable("there is no GPU");
        After { ended: Ok(ended), took: Duration::from_secs(1), port, gpu_memory, variables: &NOTHING }
    }

    fn ended() -> Ended {
        Ended {
            exit: Exit::Code(0),
            cause: Cause::Stopped,
            killed: 0,
            leftovers: Vec::new(),
            survivors: Vec::new(),
        }
    }

    #[tokio::test]
    async fn where_there_is_no_gpu_the_teardown_says_so_and_proves_the_rest() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let shown = teardown(after(ended(), free)).await;
        assert_eq!(shown.sentence(), "stopped after 1.0 s; processes gone, port free");
        assert_eq!(shown.gpu_memory.reason(), Some("there is no GPU"));
        assert_eq!(shown.remains, Vec::<String>::new());
    }

    #[tokio::test]
    async fn what_is_left_is_named_with_what_to_do() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = listener.local_addr().unwrap().port();
        let survivor = NamedProcess { pid: 41, command: "llama-server --key x".to_owned() };
        let shown = teardown(after(Ended { survivors: vec![survivor], ..ended() }, taken)).await;
        assert_eq!(shown.proofs, []);
        assert_eq!(
            shown.remains[0],
            "processes 41 of the server could not be ended; end them before you run again"
        );
        let me = format!("process {} (", std::process::id());
        assert!(shown.remains[1].starts_with(&me), "{}", shown.remains[1]);
        assert!(shown.remains[1].ends_with("stop it before you run again"), "{}", shown.remains[1]);
    }
}
