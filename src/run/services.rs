//! Services: started when the first node needs them, stopped after the last.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;

use crate::node::{Context, Failure, Kind, LiveService, RunningService, Stopped};

/// How long a node that failed waits to learn whether its server died.
const NEWS_OF_DEATH: Duration = Duration::from_millis(500);

/// One service of a run.
#[derive(Default)]
pub(super) struct Slot {
    running: Mutex<Running>,
    /// Whether it starts or runs.
    in_use: AtomicBool,
    /// Whether its start has failed.
    failed: AtomicBool,
}

#[derive(Default)]
enum Running {
    #[default]
    Not,
    Yes(Box<RunningService>),
    Failed(Failure),
    Stopped,
}

/// All services of a run, by node.
pub(super) type Slots = BTreeMap<String, Arc<Slot>>;

impl Slot {
    /// The running server; the first caller starts it, others wait.
    pub async fn ensure(&self, kind: &Kind, context: &Context) -> Result<Arc<LiveService>, Failure> {
        let mut running = self.running.lock().await;
        match &*running {
            Running::Yes(service) => return Ok(Arc::clone(&service.live)),
            Running::Failed(failure) => return Err(failure.clone()),
            Running::Not | Running::Stopped => {}
        }
        let Kind::Serve(serve) = kind else {
            return Err(Failure::failed(format!("{} is not a service", context.node)));
        };
        self.in_use.store(true, Ordering::Release);
        match serve.start(context).await {
            Ok(service) => {
                let live = Arc::clone(&service.live);
                *running = Running::Yes(Box::new(service));
                Ok(live)
            }
            Err(failure) => {
                *running = Running::Failed(failure.clone());
                self.in_use.store(false, Ordering::Release);
                self.failed.store(true, Ordering::Release);
                Err(failure)
            }
        }
    }

    /// Whether the server is being started or runs; never waits for it.
    pub fn is_in_use(&self) -> bool {
        self.in_use.load(Ordering::Acquire)
    }

    /// Whether the server's start has failed; never waits for it.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Stops the server if it runs. The answer says how it ended, or nothing
    /// if it was never started.
    pub async fn stop(&self) -> Option<Stopped> {
        let mut running = self.running.lock().await;
        self.in_use.store(false, Ordering::Release);
        match std::mem::replace(&mut *running, Running::Stopped) {
            Running::Yes(service) => Some(service.stop().await),
            Running::Failed(failure) => {
                *running = Running::Failed(failure.clone());
                // The node that needed it has shown its log.
                Some(Stopped { evidence: None, result: Err(Failure { log_tail: None, ..failure }) })
            }
            Running::Not | Running::Stopped => None,
        }
    }
}

/// A server that died while a node used it.
pub(super) struct Lost {
    /// The service's node.
    pub service: String,
    /// What it ran in.
    pub slot: Arc<Slot>,
}

/// The death of a service explains the failure of a node better than what
/// the node saw of it. Says which one died, if one did.
pub(super) async fn explain(
    failure: Failure,
    services: &BTreeMap<String, Arc<LiveService>>,
) -> (Failure, Option<String>) {
    for (name, service) in services {
        let mut died = service.died.clone();
        let death = tokio::time::timeout(NEWS_OF_DEATH, died.wait_for(Option::is_some)).await;
        if let Ok(Ok(death)) = death
            && let Some(death) = death.clone()
        {
            return (Failure { evidence: failure.evidence, ..death }, Some(name.clone()));
        }
    }
    (failure, None)
}
