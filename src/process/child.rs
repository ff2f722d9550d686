//! Starting a child under a supervisor, waiting for it, ending it.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child as Supervisor, ChildStdout};

use super::cgroup::Cgroup;
use super::error::{RunError, SpawnError, SupervisorLost};
use super::interrupt::Interrupt;
use super::lease::Held;
use super::probe::{Lookup, look_up};
pub use super::protocol::Containment;
use super::protocol::{Ended, Failure, Message, Spec};
use super::tree::{self, Identity};

/// The hidden subcommand whose body is [`super::supervisor::main`].
pub const SUBCOMMAND: &str = "__supervise";

/// A program to run: all of it, nothing is inherited.
#[derive(Debug, Clone)]
pub struct Command {
    /// The program, then its arguments. A name without a slash is looked for
    /// in the `PATH` of `env`; a relative path is taken from `cwd`.
    pub argv: Vec<String>,
    /// The directory it starts in.
    pub cwd: PathBuf,
    /// Its complete environment; see [`super::base_environment`].
    pub env: BTreeMap<String, String>,
    /// The file its output is appended to, as bytes, created for its owner only.
    pub stdout: PathBuf,
    /// The file its errors are appended to; may be the same.
    pub stderr: PathBuf,
    /// How long it may run before its tree is ended.
    pub timeout: Option<Duration>,
    /// How long its processes get between TERM and KILL.
    pub grace: Duration,
}

/// A running child. Dropping it ends its whole tree.
#[derive(Debug)]
pub struct Child {
    program: String,
    identity: Identity,
    supervisor: Supervisor,
    supervisor_identity: Identity,
    messages: Lines<BufReader<ChildStdout>>,
    stopper: Stopper,
    outcome: Option<Result<Ended, SupervisorLost>>,
}

/// Ends a child while another task waits for it.
///
/// It does not keep the child alive: that is the [`Child`]'s own.
#[derive(Debug, Clone)]
pub struct Stopper {
    pipe: Arc<Mutex<Option<File>>>,
}

impl Stopper {
    /// Asks for the end of the tree: TERM, grace, KILL. The child's
    /// [`wait`](Child::wait) returns when it is done.
    pub fn stop(&self) {
        self.request(b"stop\n");
    }

    /// Ends the tree at once, also where a `stop` is still in its grace.
    pub fn kill(&self) {
        self.request(b"kill\n");
    }

    fn request(&self, line: &[u8]) {
        if let Some(pipe) = self.lock().as_mut() {
            // A supervisor that no longer reads has already ended its tree.
            let _ = pipe.write_all(line);
        }
    }

    fn close(&self) {
        self.lock().take();
    }

    fn lock(&self) -> MutexGuard<'_, Option<File>> {
        self.pipe.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The running binary itself, whatever has been put at its path meanwhile.
#[must_use]
pub fn this_executable() -> &'static Path {
    Path::new("/proc/self/exe")
}

/// Starts a child under a supervisor.
///
/// `supervisor_exe` is an `orchestrate` binary, usually [`this_executable`].
/// Needs a tokio runtime with I/O; returns when the program runs.
pub async fn spawn(supervisor_exe: &Path, command: Command) -> Result<Child, SpawnError> {
    spawn_within(supervisor_exe, command, Containment::default()).await
}

/// Like [`spawn`], with a choice of what holds the child's processes.
pub async fn spawn_within(
    supervisor_exe: &Path,
    command: Command,
    containment: Containment,
) -> Result<Child, SpawnError> {
    let spec = Spec { containment, ..resolve(command)? };
    let program = spec.argv.first().cloned().unwrap_or_default();
    let failed = |reason: String| SpawnError::Supervisor {
        program: program.clone(),
        supervisor: supervisor_exe.to_owned(),
        reason,
    };
    let started = start_supervisor(supervisor_exe, &spec).await;
    let (supervisor, pipe, mut messages) = started.map_err(|error| failed(error.to_string()))?;
    // Not yet waited for, so its number is still its own.
    let supervisor_identity = supervisor
        .id()
        .and_then(Identity::of)
        .ok_or_else(|| failed("it cannot be seen in /proc".to_owned()))?;
    match read_message(&mut messages).await {
        Ok(Some(Message::Started(identity))) => Ok(Child {
            program,
            identity,
            supervisor,
            supervisor_identity,
            messages,
            stopper: Stopper { pipe: Arc::new(Mutex::new(Some(pipe))) },
            outcome: None,
        }),
        Ok(Some(Message::Failed { kind: Failure::Supervisor, reason })) => Err(failed(reason)),
        Ok(Some(Message::Failed { kind, reason })) => Err(refusal(program, spec, kind, reason)),
        Ok(_) => Err(failed("it ended before it said a word".to_owned())),
        Err(error) => Err(failed(error.to_string())),
    }
}

/// Starts a child and waits for it.
pub async fn run(supervisor_exe: &Path, command: Command) -> Result<Ended, RunError> {
    Ok(spawn(supervisor_exe, command).await?.wait().await?)
}

impl Child {
    /// The program's process number, which is also its process group.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.identity.pid
    }

    /// When the program started, in clock ticks since boot.
    #[must_use]
    pub fn start_time(&self) -> u64 {
        self.identity.start_time
    }

    /// The program's process, as a lease names it.
    #[must_use]
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// The supervisor's process, as a lease names it: as long as it lives, it
    /// ends the tree when told (TERM).
    #[must_use]
    pub fn supervisor(&self) -> Identity {
        self.supervisor_identity
    }

    /// The child as a lease names it.
    #[must_use]
    pub fn held(&self) -> Held {
        Held { supervisor: self.supervisor_identity, program: self.identity }
    }

    /// A handle that can end the child while another task waits for it.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// See [`Stopper::stop`].
    pub fn stop(&self) {
        self.stopper.stop();
    }

    /// See [`Stopper::kill`].
    pub fn kill(&self) {
        self.stopper.kill();
    }

    /// Ends the tree and waits for that: TERM, grace, KILL, and no grace from
    /// when the user is in haste.
    pub async fn end(&mut self, interrupt: &Interrupt) -> Result<Ended, SupervisorLost> {
        self.stop();
        let stopper = self.stopper();
        tokio::select! {
            ended = self.wait() => return ended,
            () = interrupt.at_once() => stopper.kill(),
        }
        self.wait().await
    }

    /// Waits until nothing of the child's tree runs any more.
    ///
    /// May be cancelled and called again; after the end it answers at once.
    pub async fn wait(&mut self) -> Result<Ended, SupervisorLost> {
        if self.outcome.is_none() {
            self.outcome = Some(match read_message(&mut self.messages).await {
                Ok(Some(Message::Ended(ended))) => Ok(ended),
                _ => Err(self.sweep().await),
            });
        }
        // After its last word there is nothing left to fail; it is only collected.
        let _ = self.supervisor.wait().await;
        self.outcome.clone().unwrap_or_else(|| Err(self.lost(0)))
    }

    /// Ends what a killed supervisor left behind, as far as it can be found:
    /// its cgroup, its session and the descendants of the child.
    ///
    /// The supervisor is not collected before this is done: until then its
    /// number, and so its session's, cannot be given to others.
    async fn sweep(&mut self) -> SupervisorLost {
        let mut swept = HashSet::new();
        let _ = self.supervisor.start_kill();
        let cgroup = Cgroup::of(self.supervisor_identity);
        for _ in 0..200 {
            let mut orphans = tree::session_members(self.supervisor_identity.pid);
            orphans.extend(cgroup.iter().flat_map(Cgroup::members));
            if self.identity.is_alive() {
                orphans.extend(tree::descendants(self.identity.pid));
            }
            orphans.retain(|orphan| orphan.is_running() && orphan.identity != self.supervisor_identity);
            if orphans.is_empty() {
                break;
            }
            for orphan in orphans {
                orphan.identity.signal(Signal::KILL);
                swept.insert(orphan.identity);
            }
            cgroup.iter().for_each(Cgroup::kill);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        cgroup.iter().for_each(Cgroup::remove);
        self.lost(swept.len())
    }

    fn lost(&self, swept: usize) -> SupervisorLost {
        SupervisorLost { program: self.program.clone(), supervisor: self.supervisor_identity, swept }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.stopper.close();
    }
}

/// Finds the program and checks what can be said better here than by the system.
fn resolve(command: Command) -> Result<Spec, SpawnError> {
    let Command { argv, cwd, env, stdout, stderr, timeout, grace } = command;
    let name = argv.first().cloned().unwrap_or_default();
    // Absolute, because a relative program is looked for from there and started from there.
    let cwd = match std::path::absolute(&cwd) {
        Ok(absolute) if absolute.is_dir() => absolute,
        _ => return Err(SpawnError::NoDirectory { program: name, cwd }),
    };
    let path_var = env.get("PATH").map_or("", String::as_str);
    let program = match look_up(&name, path_var, &cwd) {
        Lookup::Found(program) => program,
        Lookup::NotExecutable(program) => {
            let reason = "it is no executable file".to_owned();
            return Err(SpawnError::NotExecutable { program, reason });
        }
        Lookup::Missing => {
            let searched = if name.contains('/') { "the file system" } else { path_var };
            let searched = if searched.is_empty() { "an empty PATH" } else { searched }.to_owned();
            return Err(SpawnError::NotFound { program: name, searched });
        }
    };
    Ok(Spec {
        program,
        argv,
        cwd,
        env,
        stdout,
        stderr,
        timeout_ms: timeout.map(millis),
        grace_ms: millis(grace),
        containment: Containment::default(),
    })
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn refusal(name: String, spec: Spec, kind: Failure, reason: String) -> SpawnError {
    match kind {
        // `resolve` found the file itself.
        Failure::NotFound => SpawnError::NoInterpreter { program: spec.program },
        Failure::NotExecutable => SpawnError::NotExecutable { program: spec.program, reason },
        Failure::Log => SpawnError::Log { program: name, reason },
        Failure::Other | Failure::Supervisor => SpawnError::Refused { program: name, reason },
    }
}

type Messages = Lines<BufReader<ChildStdout>>;

/// Starts the supervisor and hands it the spec over its pipe, where neither
/// its command line nor its environment shows what may be secret.
async fn start_supervisor(exe: &Path, spec: &Spec) -> io::Result<(Supervisor, File, Messages)> {
    let mut supervisor = tokio::process::Command::new(exe)
        .arg0("orchestrate")
        .arg(SUBCOMMAND)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let (Some(mut stdin), Some(stdout)) = (supervisor.stdin.take(), supervisor.stdout.take()) else {
        return Err(io::Error::other("its pipes are missing"));
    };
    let mut line = serde_json::to_vec(spec)?;
    line.push(b'\n');
    stdin.write_all(&line).await?;
    let pipe = File::from(stdin.into_owned_fd()?);
    Ok((supervisor, pipe, BufReader::new(stdout).lines()))
}

/// The next message; none when the supervisor has closed its end.
async fn read_message(messages: &mut Messages) -> io::Result<Option<Message>> {
    match messages.next_line().await? {
        Some(line) => Ok(Some(serde_json::from_str(&line)?)),
        None => Ok(None),
    }
}
