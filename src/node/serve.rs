//! Runs an engine's own server while other nodes need it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::build_bundle::{find, public_command};
use super::context::GRACE;
use super::proof::{Candidate, Proved};
use super::settings::Wanted;
use super::{Class, Context, Failure, FailureKind, LiveService, Node, Produced, to_value};
use crate::engine::{Engine, Launch, Program};
use crate::evidence::bundle::Bundle;
use crate::evidence::service::Service;
use crate::process::{self, Child, Command, Ended, HeldPort, Listener, PortError, Stopper, SupervisorLost};
use crate::value::{Input, Text, duration};

/// Starts the engine's own server on a bundle when a node needs it, proves
/// that it is ours, and stops it after the last node that needs it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Serve {
    /// The bundle to serve.
    pub bundle: Input,
    /// The model name that clients use.
    pub model_name: String,
    /// A fixed port on 127.0.0.1; 0 chooses a free one.
    #[serde(default)]
    pub port: u16,
    /// Variables set for the server, such as `CUDA_VISIBLE_DEVICES`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, Text>,
    /// How long the server may take to become ready.
    #[serde(default = "two_minutes")]
    pub ready_within: duration::Duration,
}

fn two_minutes() -> duration::Duration {
    duration::Duration::from_secs(120)
}

/// How long a server that failed a proof is watched for having died.
const NEWS_OF_DEATH: Duration = Duration::from_millis(500);
const TAIL_LINES: usize = 15;
const TAIL_BYTES: usize = 4096;

impl Node for Serve {
    const KIND: &'static str = "serve";
    const VERSION: u32 = 1;
    const CLASS: Class = Class::Service;
    const OUTPUTS: &'static [(&'static str, &'static str)] = &[
        ("url", "where it answers, such as `http://127.0.0.1:8080`"),
        ("model_name", "the model name that clients use"),
    ];
    const EXAMPLE: &'static str = "\
server:
  serve:
    bundle: ${nodes.bundle}
    model_name: smollm2-135m-instruct
    ready_within: 1m
";
    type Evidence = Service;

    fn key_settings(&self, _: &Context) -> Result<Value, Failure> {
        let mut settings = to_value(self)?;
        if let Some(settings) = settings.as_object_mut() {
            settings.remove("port");
            settings.remove("ready_within");
        }
        Ok(settings)
    }

    fn wanted(&self) -> Vec<Wanted<'_>> {
        vec![Wanted::new("bundle", &self.bundle, "build_bundle")]
    }

    async fn execute(&self, _: &Context) -> Result<Produced, Failure> {
        Err(Failure::failed("a service is started, not executed"))
    }
}

/// A server of ours; it has to be stopped.
pub struct RunningService {
    /// What the nodes that use it see.
    pub live: Arc<LiveService>,
    stopper: Stopper,
    watcher: JoinHandle<Result<Ended, SupervisorLost>>,
    stopping: watch::Sender<bool>,
}

impl RunningService {
    /// Ends the server (TERM, grace, KILL) and waits until nothing of it is
    /// left. The error says what is.
    pub async fn stop(self) -> Result<(), Failure> {
        // The receiver lives in the watcher, which may have ended already.
        let _ = self.stopping.send(true);
        self.stopper.stop();
        let survivors = match self.watcher.await {
            Ok(Ok(ended)) => ended.survivors.iter().map(|survivor| survivor.pid.to_string()).collect(),
            _ => Vec::new(),
        };
        if survivors.is_empty() {
            return Ok(());
        }
        Err(Failure::failed(format!(
            "processes {} of the server could not be ended; end them before you run again",
            survivors.join(", ")
        )))
    }
}

impl Serve {
    /// Starts the server and proves that it is ours before anyone uses it.
    pub async fn start(&self, context: &Context) -> Result<RunningService, Failure> {
        let bundle: Bundle = context.evidence(&self.bundle)?;
        let engine = context.engine(&self.bundle)?.clone();
        let model = context.path_of(&self.bundle.0, context.artifact(&self.bundle, "model")?)?;
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
        let mut child = self.launch(context, command.clone()).await?;
        let candidate = Candidate {
            context,
            engine: engine.adapter(),
            url: format!("http://127.0.0.1:{port}"),
            model_name: &self.model_name,
            bundle: &self.bundle,
            port,
            supervisor: child.supervisor().pid,
            launched: Instant::now(),
        };
        let proved = self.proved(&mut child, &candidate).await?;
        let evidence = Service {
            schema_version: 1,
            engine: engine.adapter().name().to_owned(),
            bundle: bundle.digest,
            model_name: self.model_name.clone(),
            command: public_command(&command),
            ready_after_ms: proved.ready_after_ms,
            proofs: proved.proofs,
            probe: proved.probe,
            settings: proved.identity.settings,
            reported: proved.identity.reported,
        };
        let (died_sender, died) = watch::channel(None);
        let live = Arc::new(LiveService {
            url: candidate.url,
            model_name: self.model_name.clone(),
            evidence_digest: context.store().put_json(&context.world.public(&evidence)?)?,
            engine,
            bundle,
            model,
            work: context.work.clone(),
            died,
        });
        let stopper = child.stopper();
        let (stopping, stopping_seen) = watch::channel(false);
        let log = context.log.clone();
        let node = context.node.clone();
        let world = Arc::clone(&context.world);
        let watcher = tokio::spawn(async move {
            let ended = child.wait().await;
            world.leases.ended(&node, child.held());
            if !*stopping_seen.borrow() {
                died_sender.send_replace(Some(death_of(&node, &log, &ended)));
            }
            ended
        });
        Ok(RunningService { live, stopper, watcher, stopping })
    }

    /// Waits for the proofs, the server's end or an interruption, whichever is
    /// first. A server that is not proved is ended.
    async fn proved(&self, child: &mut Child, candidate: &Candidate<'_>) -> Result<Proved, Failure> {
        let context = candidate.context;
        let proved = tokio::select! {
            proved = candidate.prove(self.ready_within.as_std()) => proved,
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
        child.stop();
        // Gone either way; what matters is why it was not used.
        let _ = child.wait().await;
        context.world.leases.ended(&context.node, child.held());
        Err(failure)
    }

    async fn launch(&self, context: &Context, argv: Vec<String>) -> Result<Child, Failure> {
        let mut env = context.world.variables.clone();
        for (name, text) in &self.environment {
            env.insert(name.clone(), context.resolve(text)?);
        }
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

/// A port that something else has. Its command line may hold what is not ours
/// to publish, so it is shown beside the message and not in it.
fn taken(port: u16, holder: Option<&Listener>) -> Failure {
    let pid = holder.and_then(|holder| holder.pid);
    let who = pid.map_or_else(|| "a process that cannot be seen".to_owned(), |pid| format!("process {pid}"));
    Failure::environment(format!(
        "port {port} is taken by {who}; stop it, or set the port to 0 to have a free one chosen"
    ))
    .with_log(holder.and_then(|holder| holder.command.clone()).unwrap_or_default())
}

fn death(context: &Context, ended: &Result<Ended, SupervisorLost>) -> Failure {
    death_of(&context.node, &context.log, ended)
}

/// A server that ended although nobody stopped it.
fn death_of(node: &str, log: &Path, ended: &Result<Ended, SupervisorLost>) -> Failure {
    let how = match ended {
        Ok(ended) => format!("{node} {}", was(&ended.exit.to_string())),
        Err(lost) => format!("{node} was lost: {lost}"),
    };
    Failure::failed(format!("{how}; its last lines say what it was doing"))
        .with_log(process::tail(log, TAIL_LINES, TAIL_BYTES))
}

/// "killed by SIGKILL" needs a verb, "exited with 1" has one.
fn was(exit: &str) -> String {
    if exit.starts_with("killed") { format!("was {exit}") } else { exit.to_owned() }
}
