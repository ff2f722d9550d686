//! A server of ours that runs.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::teardown::{After, teardown};
use crate::evidence::Measured;
use crate::evidence::service::Service;
use crate::node::{Context, Failure, LiveService, World};
use crate::process::{self, Child, Ended, Masker, Stopper, SupervisorLost};
use crate::value::Digest;

const TAIL_LINES: usize = 15;
const TAIL_BYTES: usize = 4096;

/// A server of ours; it has to be stopped.
pub struct RunningService {
    /// What the nodes that use it see.
    pub live: Arc<LiveService>,
    world: Arc<World>,
    evidence: Service,
    /// Bytes in use on each GPU before the launch.
    gpu_memory: Measured<Vec<u64>>,
    stopper: Stopper,
    watcher: JoinHandle<Result<Ended, SupervisorLost>>,
    stopping: watch::Sender<bool>,
}

/// A server that was stopped.
#[derive(Debug)]
pub struct Stopped {
    /// Its evidence, with its end.
    pub evidence: Option<Digest>,
    /// How it ended, in few words. The error says what of it is left, or that
    /// it had died.
    pub result: Result<String, Failure>,
}

impl RunningService {
    /// Watches over a server that has proved itself. `live` is made with the
    /// receiver that tells of its death.
    pub(super) fn watch(
        context: &Context,
        mut child: Child,
        evidence: Service,
        gpu_memory: Measured<Vec<u64>>,
        live: impl FnOnce(watch::Receiver<Option<Failure>>) -> LiveService,
    ) -> Self {
        let (died_sender, died) = watch::channel(None);
        let (stopping, stopping_seen) = watch::channel(false);
        let stopper = child.stopper();
        let (log, node, world) = (context.log.clone(), context.node.clone(), Arc::clone(&context.world));
        let watcher = tokio::spawn(async move {
            let ended = child.wait().await;
            world.leases.ended(&node, child.held());
            if !*stopping_seen.borrow() {
                died_sender.send_replace(Some(death_of(&world.secrets, &node, &log, &ended)));
            }
            ended
        });
        let (live, world) = (Arc::new(live(died)), Arc::clone(&context.world));
        Self { live, world, evidence, gpu_memory, stopper, watcher, stopping }
    }

    /// Ends the server (TERM, grace, KILL), waits until nothing of it is left,
    /// and proves that.
    pub async fn stop(mut self) -> Stopped {
        let asked = Instant::now();
        // The receiver lives in the watcher, which may have ended already.
        let _ = self.stopping.send(true);
        self.stopper.stop();
        let ended = tokio::select! {
            ended = &mut self.watcher => ended,
            () = self.world.cancelled.at_once() => {
                self.stopper.kill();
                (&mut self.watcher).await
            }
        };
        let ended = ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
        let after = After {
            ended,
            took: asked.elapsed(),
            port: self.live.socket.port,
            gpu_memory: self.gpu_memory,
            variables: &self.world.variables,
        };
        let teardown = teardown(after).await;
        // The node that used it has shown the log of a server that died.
        let died = self.live.died.borrow().clone().map(|failure| Failure { log_tail: None, ..failure });
        let result = match (died, teardown.remains.as_slice()) {
            (None, []) => Ok(teardown.sentence()),
            (None, remains) => Err(Failure::failed(remains.join("; "))),
            (Some(died), []) => Err(died),
            (Some(died), remains) => {
                let message = format!("{}; {}", died.message, remains.join("; "));
                Err(Failure { message, ..died })
            }
        };
        self.evidence.teardown = Some(teardown);
        let stored = self.world.public(&self.evidence).map(|evidence| self.world.store.put_json(&evidence));
        match stored {
            Ok(Ok(evidence)) => Stopped { evidence: Some(evidence), result },
            Ok(Err(error)) => Stopped { evidence: None, result: result.and(Err(Failure::from(error))) },
            Err(failure) => Stopped { evidence: None, result: result.and(Err(failure)) },
        }
    }
}

pub(super) fn death(context: &Context, ended: &Result<Ended, SupervisorLost>) -> Failure {
    death_of(&context.world.secrets, &context.node, &context.log, ended)
}

/// A server that ended although nobody stopped it.
fn death_of(secrets: &Masker, node: &str, log: &Path, ended: &Result<Ended, SupervisorLost>) -> Failure {
    let how = match ended {
        Ok(ended) => format!("{node} {}", was(&ended.exit.to_string())),
        Err(lost) => format!("{node} was lost: {lost}"),
    };
    Failure::failed(format!("{how}; its last lines say what it was doing"))
        .with_log(process::tail_masked(log, TAIL_LINES, TAIL_BYTES, secrets))
}

/// "killed by SIGKILL" needs a verb, "exited with 1" has one.
fn was(exit: &str) -> String {
    if exit.starts_with("killed") { format!("was {exit}") } else { exit.to_owned() }
}
