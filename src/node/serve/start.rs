//! Starting a server, and giving up one that does not prove to be ours.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::Serve;
use super::environment::as_launched;
use super::proof::{Candidate, Proved};
use super::running::{RunningService, death};
use super::socket::{Socket, who};
use crate::engine::{Engine, Launch, Program};
use crate::evidence::Measured;
use crate::evidence::bundle::Bundle;
use crate::evidence::host::Gpus;
use crate::evidence::service::Service;
use crate::host::gpu_memory_in_use;
use crate::node::build_bundle::{find, public_command};
use crate::node::context::GRACE;
use crate::node::{Context, Failure, FailureKind, LiveService};
use crate::process::{self, Child, Command, HeldPort, Listener, PortError};

/// How long a server that failed a proof is watched for having died.
const NEWS_OF_DEATH: Duration = Duration::from_millis(500);

impl Serve {
    /// Starts the server and proves that it is ours before anyone uses it.
    pub async fn start(&self, context: &Context) -> Result<RunningService, Failure> {
        let bundle: Bundle = context.evidence(&self.bundle)?;
        let engine = context.engine(&self.bundle)?.clone();
        let model = context.path_of(&self.bundle.0, context.artifact(&self.bundle, "model")?)?;
        let set = self.variables(context)?;
        let gpu_memory = gpu_memory_before(context).await;
        let held = self.hold_port()?;
        let launch = Launch {
            program: program(engine.adapter(), context)?,
            model: model.clone(),
            model_name: self.model_name.clone(),
            port: held.port(),
            cores: context.world.host.cpu.logical,
            work: context.work.clone(),
        };
        let command = engine.adapter().command(&launch);
        context.progress("starting");
        let port = held.release();
        let mut child = launched(context, command.clone(), &set).await?;
        let candidate = Candidate {
            context,
            engine: engine.adapter(),
            url: format!("http://127.0.0.1:{port}"),
            model_name: &self.model_name,
            bundle: &self.bundle,
            variables: &set,
            socket: Socket { port, supervisor: child.supervisor().pid },
            launched: Instant::now(),
        };
        let proved = self.proved(&mut child, &candidate).await?;
        let evidence = Service {
            schema_version: 2,
            engine: engine.adapter().name().to_owned(),
            bundle: bundle.digest,
            model_name: self.model_name.clone(),
            command: public_command(&command),
            environment: as_launched(&set, &context.world.variables),
            ready_after_ms: proved.ready_after_ms,
            proofs: proved.proofs,
            probe: proved.probe,
            settings: proved.identity.settings,
            reported: proved.identity.reported,
            teardown: None,
        };
        let evidence_digest = context.store().put_json(&context.world.public(&evidence)?)?;
        let (url, socket) = (candidate.url, candidate.socket);
        let live = |died| LiveService {
            url,
            model_name: self.model_name.clone(),
            evidence_digest,
            engine: engine.clone(),
            bundle,
            model,
            work: context.work.clone(),
            socket,
            died,
        };
        Ok(RunningService::watch(context, child, evidence, gpu_memory, live))
    }

    /// Waits for the proofs, the server's end or an interruption, whichever is
    /// first. A server that is not proved is ended.
    async fn proved(&self, child: &mut Child, candidate: &Candidate<'_>) -> Result<Proved, Failure> {
        let context = candidate.context;
        let proved = tokio::select! {
            proved = candidate.prove(self.silent_for.as_std(), self.ready_within.as_std()) => proved,
            ended = child.wait() => Err(death(context, &ended)),
            failure = context.interrupted() => Err(failure),
        };
        let Err(failure) = proved else { return proved };
        // A server that died explains more than the proof it failed.
        let failure = match failure.kind {
            FailureKind::Failed => {
                let ended = tokio::time::timeout(NEWS_OF_DEATH, child.wait()).await;
                ended.map_or(failure, |ended| death(context, &ended))
            }
            FailureKind::Environment | FailureKind::Cancelled => failure,
        };
        let stranger = candidate.socket.stranger().filter(|_| failure.kind == FailureKind::Failed);
        // Gone either way; what matters is why it was not used.
        let _ = child.end(&context.world.cancelled).await;
        context.world.leases.ended(&context.node, child.held());
        Err(match stranger {
            Some(stranger) => in_the_place_of(&failure, &candidate.socket.refusal(&stranger)),
            None => failure,
        })
    }

    fn hold_port(&self) -> Result<HeldPort, Failure> {
        let held = match self.port {
            0 => process::free_port(),
            port => process::require_free(port),
        };
        held.map_err(|error| match error {
            PortError::Taken { port, holder } => taken(port, holder.as_ref()),
            unusable @ PortError::Unusable { .. } => Failure::environment(unusable.to_string()),
        })
    }
}

async fn launched(
    context: &Context,
    argv: Vec<String>,
    set: &BTreeMap<String, String>,
) -> Result<Child, Failure> {
    let mut env = context.world.variables.clone();
    env.extend(set.clone());
    let command = Command {
        argv,
        cwd: context.work.clone(),
        env,
        stdout: context.log.clone(),
        stderr: context.log.clone(),
        timeout: None,
        grace: GRACE,
    };
    context.spawn(command).await
}

/// Bytes in use on each GPU before the server has any.
async fn gpu_memory_before(context: &Context) -> Measured<Vec<u64>> {
    match &context.world.host.gpus {
        Gpus::Found(_) => gpu_memory_in_use(&context.world.variables).await,
        Gpus::Unavailable(reason) => Measured::unavailable(reason),
    }
}

fn program(engine: &dyn Engine, context: &Context) -> Result<Vec<String>, Failure> {
    match engine.program() {
        Program::Named(name) => Ok(vec![find(context, &name)?.display().to_string()]),
        Program::Script { environment, script, .. } => {
            let python = context.python(&environment)?.display().to_string();
            let script = context.path_of(&script.0, context.artifact(&script, "file")?)?;
            Ok(vec![python, script.display().to_string()])
        }
    }
}

/// A port that something else has, with its whole command beside the message.
fn taken(port: u16, holder: Option<&Listener>) -> Failure {
    let who = holder.map_or_else(|| "a process that cannot be seen".to_owned(), who);
    Failure::environment(format!(
        "port {port} is taken by {who}; stop it, or set the port to 0 to have a free one chosen"
    ))
    .with_log(holder.and_then(|holder| holder.command.clone()).unwrap_or_default())
}

/// What became of our server while somebody else had its port.
fn in_the_place_of(ours: &Failure, refusal: &Failure) -> Failure {
    let logs = [&refusal.log_tail, &ours.log_tail].into_iter().flatten().cloned().collect::<Vec<_>>();
    Failure::environment(format!("{}; meanwhile {}", refusal.message, ours.message)).with_log(logs.join("\n"))
}
