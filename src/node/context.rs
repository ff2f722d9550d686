//! What a node is given: its inputs, a work directory, and how to run things.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::time::Instant;

use super::{Artifact, Failure, FailureKind, Kind, Socket};
use crate::engine::EngineSettings;
use crate::event::{Event, Outcome};
use crate::evidence::bundle::Bundle;
use crate::evidence::host::Host;
use crate::evidence::mode::Mode;
use crate::evidence::redact::SiteValues;
use crate::process::{self, Child, Command, Ended, Interrupt, Leases, Masker, find_program};
use crate::store::{EnvironmentSlot, Store};
use crate::value::reference::{Piece, pieces};
use crate::value::{Digest, Input, Reference, Text};

/// How long a child gets between TERM and KILL.
pub const GRACE: Duration = Duration::from_secs(3);

const SLOT_POLL: Duration = Duration::from_millis(200);
const TAIL_LINES: usize = 20;
const TAIL_BYTES: usize = 4096;

/// What is the same for every node of a run.
pub struct World {
    /// The user's store.
    pub store: Store,
    /// The environment that children start from.
    pub variables: BTreeMap<String, String>,
    /// The program that supervises children.
    pub supervisor: PathBuf,
    /// The machine.
    pub host: Host,
    /// What no evidence may hold.
    pub site: SiteValues,
    /// What the environment holds that no log may show.
    pub secrets: Masker,
    /// Takes what happens.
    pub events: Box<dyn Fn(Event) + Send + Sync>,
    /// Remembers children, for the run after one that was killed.
    pub leases: Arc<dyn Leases>,
    /// Turns true when the user wants everything to stop.
    pub cancelled: Interrupt,
    /// The run's id.
    pub run: String,
    /// A directory for what needs a short path, such as sockets; made when a
    /// node needs it, and removed with the run.
    pub scratch: PathBuf,
    /// Programs that keys name.
    pub programs: Programs,
}

/// Digests of programs, each file read once a run.
#[derive(Debug, Default)]
pub struct Programs(Mutex<HashMap<String, Option<Digest>>>);

impl Programs {
    /// The digest of a program by its name or path; nothing where it is not
    /// there or cannot be read.
    fn digest(&self, name: &str, path: &str) -> Option<Digest> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let read = || find_program(name, path).and_then(|program| Digest::of_file(&program).ok());
        *known.entry(name.to_owned()).or_insert_with(read)
    }
}

/// What a node that was referred to left.
#[derive(Debug, Clone)]
pub struct InputRecord {
    /// Kind and settings of that node.
    pub settings: Arc<Kind>,
    /// What became of it.
    pub outcome: Outcome,
    /// Why, where it is not plain success.
    pub reason: Option<String>,
    /// Its outputs by name.
    pub outputs: BTreeMap<String, Artifact>,
    /// Its evidence document, if it left one.
    pub evidence: Option<Digest>,
    /// Evidence of the services it used, by their nodes.
    pub services: BTreeMap<String, Digest>,
    /// The key it was found or made under.
    pub key: Option<Digest>,
    /// What it left, by content, once that was asked for.
    pub identity: OnceLock<Digest>,
}

/// A server that runs and proved to be ours.
pub struct LiveService {
    /// Address, such as `http://127.0.0.1:4000`.
    pub url: String,
    /// The model name it serves under.
    pub model_name: String,
    /// The engine behind it.
    pub engine: EngineSettings,
    /// What it serves.
    pub bundle: Bundle,
    /// The served file as the server sees it.
    pub model: PathBuf,
    /// The service's own directory.
    pub work: PathBuf,
    /// How it proved to be ours, in the store.
    pub evidence_digest: Digest,
    /// Where it listens, and below whom.
    pub socket: Socket,
    /// Holds the cause once the server has died.
    pub died: watch::Receiver<Option<Failure>>,
}

/// The nodes that a subject stands on, by role, and what they left.
#[derive(Debug, Clone)]
pub struct SubjectInputs {
    /// Name of the subject.
    pub name: String,
    /// The target that serves it.
    pub target: String,
    /// Runtime mode.
    pub mode: Mode,
    /// Share of measured requests that may fail, from 0 to 1.
    pub error_limit: f64,
    /// What the machine lacks for the target, as a sentence.
    pub unmet: Option<String>,
    /// What the target says of itself, for the matrix.
    pub about: BTreeMap<String, String>,
    /// Node name and record by role; roles are those of the ladder.
    pub roles: BTreeMap<String, (String, Arc<InputRecord>)>,
}

/// Everything a node may use.
pub struct Context {
    /// What is the same for every node.
    pub world: Arc<World>,
    /// The node's instance name.
    pub node: String,
    /// The directory of the file that the node is written in.
    pub base: PathBuf,
    /// An empty directory for this attempt.
    pub work: PathBuf,
    /// The node's log.
    pub log: PathBuf,
    /// The nodes it depends on, and those that their settings refer to.
    pub inputs: BTreeMap<String, Arc<InputRecord>>,
    /// The running services it refers to.
    pub services: BTreeMap<String, Arc<LiveService>>,
    /// The plan's subjects, for nodes that read them.
    pub subjects: Vec<SubjectInputs>,
    /// When its time is up, where the plan limits it.
    pub deadline: Option<Deadline>,
}

/// The end of the time that a node may take.
#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    at: Instant,
    limit: Duration,
}

impl Deadline {
    /// The end of a time that begins now.
    #[must_use]
    pub fn after(limit: Duration) -> Self {
        Self { at: Instant::now() + limit, limit }
    }

    /// The moment itself.
    #[must_use]
    pub fn at(self) -> Instant {
        self.at
    }

    /// Waits until the time is up.
    async fn passed(self) -> Failure {
        tokio::time::sleep_until(self.at).await;
        self.failure()
    }

    /// What became of a node whose time is up.
    #[must_use]
    pub fn failure(self) -> Failure {
        Failure::failed(format!(
            "it took longer than its timeout of {} s; raise `timeout` in the plan if that is too short",
            self.limit.as_secs_f64()
        ))
    }
}

impl LiveService {
    /// Whether it still lives and still has its port to itself, asked right
    /// before a node uses it.
    pub fn still_ours(&self) -> Result<(), Failure> {
        if let Some(death) = self.died.borrow().clone() {
            return Err(death);
        }
        self.socket.require_ours()?.map(drop).ok_or_else(|| {
            Failure::failed(format!(
                "the server of {} no longer listens on port {}; its log says why",
                self.model_name, self.socket.port
            ))
        })
    }
}

impl World {
    /// A document without the values of this machine's site.
    pub fn public<T: Serialize + DeserializeOwned>(&self, document: &T) -> Result<T, Failure> {
        serde_json::to_value(document)
            .and_then(|value| serde_json::from_value(self.site.mask_value(value)))
            .map_err(|error| Failure::failed(format!("the evidence cannot be written: {error}")))
    }
}

impl Context {
    /// The store.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.world.store
    }

    /// Says what the node is doing now.
    pub fn progress(&self, doing: impl Into<String>) {
        (self.world.events)(Event::NodeProgress { node: self.node.clone(), doing: doing.into() });
    }

    /// What the node that `input` refers to left.
    pub fn record(&self, input: &Input) -> Result<&InputRecord, Failure> {
        self.inputs.get(&input.0.node).map(Arc::as_ref).ok_or_else(|| {
            Failure::failed(format!("{} was not given the result of {}", self.node, input.0.node))
        })
    }

    /// The evidence of the node that `input` refers to.
    pub fn evidence<T: DeserializeOwned>(&self, input: &Input) -> Result<T, Failure> {
        let digest = self
            .record(input)?
            .evidence
            .ok_or_else(|| Failure::failed(format!("{} left no evidence", input.0.node)))?;
        Ok(self.store().get_json(digest)?)
    }

    /// One output of the node that `input` refers to: the one named in the
    /// reference, or `default` where it names the node as a whole.
    pub fn artifact(&self, input: &Input, default: &str) -> Result<&Artifact, Failure> {
        let output = input.0.output.as_deref().unwrap_or(default);
        self.record(input)?
            .outputs
            .get(output)
            .ok_or_else(|| Failure::failed(format!("{} produced no output named {output}", input.0.node)))
    }

    /// The running service that `input` refers to.
    pub fn service(&self, input: &Input) -> Result<&Arc<LiveService>, Failure> {
        self.services.get(&input.0.node).ok_or_else(|| {
            Failure::failed(format!("{} is not running; it must be a serve node", input.0.node))
        })
    }

    /// A path at which a program finds an artifact; made on first use.
    pub fn path_of(&self, reference: &Reference, artifact: &Artifact) -> Result<PathBuf, Failure> {
        let store = self.store();
        let output = reference.output.as_deref().unwrap_or("output");
        let place = self.work.join("inputs").join(&reference.node).join(output);
        match artifact {
            Artifact::File { name, digest } => {
                let path = place.join(name);
                if !path.exists() {
                    store.materialise(*digest, &path)?;
                }
                Ok(path)
            }
            Artifact::Tree(digest) => {
                if !place.exists() {
                    store.materialise_tree(*digest, &place)?;
                }
                Ok(place)
            }
            Artifact::Environment(identity) => self.environment(*identity),
            Artifact::Value(value) => Ok(PathBuf::from(value)),
        }
    }

    /// The directory of a Python environment.
    pub fn environment(&self, identity: Digest) -> Result<PathBuf, Failure> {
        self.store().environment(identity).ok_or_else(|| {
            Failure::environment(format!(
                "the Python environment {} is no longer in the store; run the plan again",
                identity.short()
            ))
        })
    }

    /// The place of an environment, once nobody else makes it.
    pub async fn environment_slot(&self, identity: Digest) -> Result<EnvironmentSlot, Failure> {
        loop {
            if let Some(slot) = self.store().environment_slot(identity)? {
                return Ok(slot);
            }
            self.progress("waiting for another run that makes this environment");
            tokio::select! {
                () = tokio::time::sleep(SLOT_POLL) => {}
                failure = self.interrupted() => return Err(failure),
            }
        }
    }

    /// The engine of the bundle that `input` refers to.
    pub fn engine(&self, input: &Input) -> Result<&EngineSettings, Failure> {
        match self.record(input)?.settings.as_ref() {
            Kind::BuildBundle(bundle) => Ok(&bundle.engine),
            other => Err(Failure::environment(format!(
                "{} is a {} node; a build_bundle node is needed there",
                input.0.node,
                other.name()
            ))),
        }
    }

    /// The interpreter of the environment that `input` refers to.
    pub fn python(&self, input: &Input) -> Result<PathBuf, Failure> {
        match self.artifact(input, "environment")? {
            Artifact::Environment(identity) => Ok(self.environment(*identity)?.join("bin/python")),
            _ => Err(Failure::failed(format!("{} is not a Python environment", input.0.node))),
        }
    }

    /// Text with every reference replaced by a path or value.
    pub fn resolve(&self, text: &Text) -> Result<String, Failure> {
        let broken =
            |rest: &str| Failure::failed(format!("{rest:?} opens a reference and does not close it"));
        let mut resolved = String::new();
        for piece in pieces(&text.0).map_err(broken)? {
            match piece {
                Piece::Literal(literal) => resolved.push_str(&literal),
                Piece::Reference(inner) => resolved.push_str(&self.resolve_reference(inner)?),
            }
        }
        Ok(resolved)
    }

    fn resolve_reference(&self, inner: &str) -> Result<String, Failure> {
        let reference = Reference::parse(inner)
            .ok_or_else(|| Failure::failed(format!("${{{inner}}} is not a reference to a node")))?;
        let output = reference.output.as_deref().unwrap_or_default();
        if let Some(service) = self.services.get(&reference.node) {
            return match output {
                "url" => Ok(service.url.clone()),
                "model_name" => Ok(service.model_name.clone()),
                _ => Err(Failure::failed(format!("a service has a url and a model_name, no {output:?}"))),
            };
        }
        let input = Input(reference.clone());
        if output == "python" {
            return Ok(self.python(&Input(Reference { output: None, ..reference }))?.display().to_string());
        }
        let artifact = self.artifact(&input, output)?;
        Ok(self.path_of(&reference, artifact)?.display().to_string())
    }

    /// The digest of a program of this machine; nothing where it is not there
    /// or cannot be read.
    #[must_use]
    pub fn program_digest(&self, name: &str) -> Option<Digest> {
        let path = self.world.variables.get("PATH").map_or("", String::as_str);
        self.world.programs.digest(name, path)
    }

    /// A path written in a plan, relative to the file it is written in.
    #[must_use]
    pub fn plan_path(&self, path: &str) -> PathBuf {
        self.base.join(path)
    }

    /// Runs a program to its end in the work directory, its output in the
    /// node's log. It is ended when the user stops the run, the node's time is
    /// up or a service it uses dies.
    pub async fn run(
        &self,
        argv: Vec<String>,
        environment: &[(&str, &str)],
        cwd: &Path,
        timeout: Option<Duration>,
    ) -> Result<Ended, Failure> {
        self.run_with_output(argv, environment, cwd, timeout, &self.log).await
    }

    /// Like [`Context::run`], with what the program prints in a file of its own.
    pub async fn run_with_output(
        &self,
        argv: Vec<String>,
        environment: &[(&str, &str)],
        cwd: &Path,
        timeout: Option<Duration>,
        stdout: &Path,
    ) -> Result<Ended, Failure> {
        let mut variables = self.world.variables.clone();
        let extra = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        variables.extend(extra);
        let command = Command {
            argv,
            cwd: cwd.to_owned(),
            env: variables,
            stdout: stdout.to_owned(),
            stderr: self.log.clone(),
            timeout,
            grace: GRACE,
        };
        let mut child = self.spawn(command).await?;
        let held = child.held();
        let interruption = tokio::select! {
            ended = child.wait() => {
                self.world.leases.ended(&self.node, held);
                return ended.map_err(|lost| Failure::environment(lost.to_string()));
            }
            interruption = self.interrupted() => interruption,
        };
        // The tree is gone either way; what matters is why it was ended.
        let _ = child.end(&self.world.cancelled).await;
        self.world.leases.ended(&self.node, held);
        let is_told = interruption.log_tail.is_some() || interruption.kind == FailureKind::Cancelled;
        Err(if is_told { interruption } else { interruption.with_log(self.log_tail()) })
    }

    /// Starts a child, which is leased when this returns. Whoever waits for
    /// its end has to say so to the leases.
    pub async fn spawn(&self, command: Command) -> Result<Child, Failure> {
        let mut child = process::spawn(&self.world.supervisor, command).await?;
        if let Err(error) = self.world.leases.begun(&self.node, child.held()) {
            child.kill();
            // It is gone either way; what matters is why it may not run.
            let _ = child.wait().await;
            return Err(Failure::environment(error.to_string()));
        }
        Ok(child)
    }

    /// Waits until the user stops the run, the node's time is up or a service
    /// of the node dies.
    pub async fn interrupted(&self) -> Failure {
        match self.deadline {
            None => self.stopped_or_bereft().await,
            Some(deadline) => tokio::select! {
                failure = self.stopped_or_bereft() => failure,
                failure = deadline.passed() => failure,
            },
        }
    }

    async fn stopped_or_bereft(&self) -> Failure {
        let user = async {
            self.world.cancelled.raised().await;
            Failure::cancelled()
        };
        let deaths = self.services.values().map(|service| {
            let mut died = service.died.clone();
            Box::pin(async move {
                match died.wait_for(Option::is_some).await.map(|failure| failure.clone()) {
                    Ok(Some(failure)) => failure,
                    _ => std::future::pending().await,
                }
            })
        });
        let deaths: Vec<_> = deaths.collect();
        if deaths.is_empty() {
            return user.await;
        }
        tokio::select! {
            failure = user => failure,
            (failure, _, _) = futures_util::future::select_all(deaths) => failure,
        }
    }

    /// The end of the node's log.
    #[must_use]
    pub fn log_tail(&self) -> String {
        process::tail_masked(&self.log, TAIL_LINES, TAIL_BYTES, &self.world.secrets)
    }
}
