//! The body of the hidden subcommand that watches over one child.
//!
//! It leads a session of its own, so that a terminal's signals do not reach
//! it, and reaps all orphaned descendants of its child, so that none can slip
//! away: not a daemon, not another process group, not another session. When
//! it has no children left, the child has no descendants left.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use rustix::process::{Pid, WaitOptions, getpid, set_child_subreaper, setsid, wait};
use tokio::signal::unix::{Signal as SignalStream, SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::cgroup::Cgroup;
use super::protocol::{Cause, Containment, Ended, Exit, Failure, Message, Spec};
use super::teardown::Teardown;
use super::tree::Identity;

/// How long helpers of a child that exited may take to notice and follow it.
const SETTLE: Duration = Duration::from_millis(250);
/// How often the tree is looked at again while it is being ended.
const TICK: Duration = Duration::from_millis(20);
/// How long a process may resist KILL before it is given up and reported.
const KILL_LIMIT: Duration = Duration::from_secs(10);
/// Stands for "no time limit": longer than any machine is up.
const FOR_EVER: Duration = Duration::from_secs(30 * 365 * 86_400);

/// Reads a [`Spec`] from the first line of standard input, runs it, and
/// reports on standard output until nothing of it is left.
///
/// The exit code tells only whether the supervisor could do its own work; how
/// the child ended is in the report.
#[must_use]
pub fn main() -> ExitCode {
    match supervise() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&Message::Failed { kind: Failure::Supervisor, reason: error.to_string() });
            ExitCode::FAILURE
        }
    }
}

fn supervise() -> io::Result<()> {
    // A leader of a process group cannot lead a new session; it then already
    // stands apart from the group of whoever started it.
    let _ = setsid();
    set_child_subreaper(Some(getpid()))?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let spec: Spec = serde_json::from_str(&line).map_err(io::Error::other)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match Watch::start(&spec)? {
            Ok(watch) => report(&Message::Ended(watch.run().await)),
            Err((kind, reason)) => report(&Message::Failed { kind, reason }),
        }
        Ok(())
    })
}

/// Writes one line; nobody may be listening any more, which is no reason to stop.
fn report(message: &Message) {
    if let Ok(line) = serde_json::to_string(message) {
        let mut stdout = io::stdout().lock();
        let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
    }
}

/// What the orchestrator asks for.
#[derive(Clone, Copy)]
enum Request {
    Stop,
    Kill,
    /// Its end of the pipe is closed: it is gone or does not care any more.
    Gone,
}

/// Reads requests on a thread of its own, because reading a pipe may block.
fn requests() -> UnboundedReceiver<Request> {
    let (sender, receiver) = unbounded_channel();
    std::thread::spawn(move || {
        for line in io::stdin().lock().split(b'\n').map_while(Result::ok) {
            let request = if line == b"kill" { Request::Kill } else { Request::Stop };
            if sender.send(request).is_err() {
                return;
            }
        }
        let _ = sender.send(Request::Gone);
    });
    receiver
}

struct Watch {
    child: Child,
    cgroup: Option<Cgroup>,
    requests: UnboundedReceiver<Request>,
    child_changed: SignalStream,
    terminate: SignalStream,
    deadline: Instant,
    grace: Duration,
}

impl Watch {
    /// Starts the child and reports it. The outer error is the supervisor's own.
    fn start(spec: &Spec) -> io::Result<Result<Self, (Failure, String)>> {
        // From here on these two do nothing but wake streams that nobody reads.
        let _interrupt = signal(SignalKind::interrupt())?;
        let _hangup = signal(SignalKind::hangup())?;
        let terminate = signal(SignalKind::terminate())?;
        let child_changed = signal(SignalKind::child())?;
        let (cgroup, child) = match spec.containment {
            Containment::Cgroup => Cgroup::around(|| Child::spawn(spec)),
            Containment::Family => (None, Child::spawn(spec)),
        };
        let child = match child {
            Ok(child) => child,
            Err(failure) => {
                cgroup.iter().for_each(Cgroup::remove);
                return Ok(Err(failure));
            }
        };
        report(&Message::Started(child.identity));
        let limit = spec.timeout_ms.map_or(FOR_EVER, Duration::from_millis).min(FOR_EVER);
        Ok(Ok(Self {
            child,
            cgroup,
            requests: requests(),
            child_changed,
            terminate,
            deadline: Instant::now() + limit,
            grace: Duration::from_millis(spec.grace_ms).min(FOR_EVER),
        }))
    }

    async fn run(mut self) -> Ended {
        let cause = self.until_end().await;
        if cause == Cause::Exited {
            self.let_helpers_follow().await;
        }
        let mut teardown = self.end_tree(cause).await;
        teardown.end();
        Ended {
            exit: self.child.exit.unwrap_or(Exit::Never),
            cause,
            killed: teardown.killed.len(),
            leftovers: if cause == Cause::Exited { teardown.named() } else { Vec::new() },
            survivors: teardown.survivors,
        }
    }

    /// Waits for the first reason to end the tree.
    async fn until_end(&mut self) -> Cause {
        loop {
            self.child.reap();
            if self.child.exit.is_some() {
                return Cause::Exited;
            }
            tokio::select! {
                biased;
                _ = self.child_changed.recv() => {}
                request = self.requests.recv() => return self.cause_of(request),
                _ = self.terminate.recv() => return Cause::Stopped,
                () = sleep_until(self.deadline) => return Cause::Timeout,
            }
        }
    }

    fn cause_of(&mut self, request: Option<Request>) -> Cause {
        match request {
            Some(Request::Stop) => Cause::Stopped,
            Some(Request::Kill) => {
                self.grace = Duration::ZERO;
                Cause::Stopped
            }
            Some(Request::Gone) | None => Cause::Orphaned,
        }
    }

    /// Gives helpers that watch the child (a resource tracker, a log writer)
    /// a moment to end by themselves, so that they are not called leftovers.
    async fn let_helpers_follow(&mut self) {
        let until = Instant::now() + SETTLE;
        while self.child.reap() {
            if timeout_at(until, self.child_changed.recv()).await.is_err() {
                return;
            }
        }
    }

    /// Ends every descendant: TERM, grace, KILL.
    async fn end_tree(&mut self, cause: Cause) -> Teardown {
        let mut teardown = Teardown::new(self.cgroup.take());
        let mut kill_from = Instant::now() + self.grace;
        let mut listening = cause != Cause::Orphaned;
        while self.child.reap() || teardown.is_held() {
            let now = Instant::now();
            if now >= kill_from + KILL_LIMIT {
                teardown.give_up();
                break;
            } else if now >= kill_from {
                teardown.kill_all();
            } else {
                teardown.ask_all();
            }
            let tick = sleep(TICK);
            tokio::pin!(tick);
            loop {
                tokio::select! {
                    _ = self.child_changed.recv() => if !self.child.reap() { break },
                    request = self.requests.recv(), if listening => match request {
                        Some(Request::Kill) => { kill_from = kill_from.min(Instant::now()); break }
                        Some(Request::Stop) => {}
                        Some(Request::Gone) | None => listening = false,
                    },
                    () = &mut tick => break,
                }
            }
        }
        teardown
    }
}

/// The one process the spec asked for.
struct Child {
    pid: Pid,
    identity: Identity,
    exit: Option<Exit>,
}

impl Child {
    fn spawn(spec: &Spec) -> Result<Self, (Failure, String)> {
        let (stdout, stderr) = open_logs(&spec.stdout, &spec.stderr)?;
        let name = spec.argv.first().map_or_else(|| spec.program.as_os_str(), AsRef::as_ref);
        // A group of its own: a program that signals its own group must not hit us.
        let mut child = Command::new(&spec.program)
            .arg0(name)
            .args(spec.argv.iter().skip(1))
            .current_dir(&spec.cwd)
            .env_clear()
            .envs(&spec.env)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(stderr)
            .spawn()
            .map_err(|error| (failure_of(&error), error.to_string()))?;
        // Until `reap` collects it, the process has an entry in /proc, be it a zombie's.
        let Some(identity) = Identity::of(child.id()) else {
            let _ = child.kill();
            return Err((Failure::Supervisor, "the program cannot be seen in /proc".to_owned()));
        };
        Ok(Self { pid: Pid::from_child(&child), identity, exit: None })
    }

    /// Collects everything that has ended; returns whether any descendant is left.
    fn reap(&mut self) -> bool {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.pid => {
                    let code = status.exit_status().map(Exit::Code);
                    self.exit = code.or(status.terminating_signal().map(Exit::Signal));
                }
                Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }
}

fn failure_of(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::NotFound => Failure::NotFound,
        io::ErrorKind::PermissionDenied => Failure::NotExecutable,
        _ if error.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error()) => Failure::NotExecutable,
        _ => Failure::Other,
    }
}

fn open_logs(stdout: &Path, stderr: &Path) -> Result<(File, File), (Failure, String)> {
    // Logs may hold what the child's environment holds: they are for their owner only.
    let open = |path: &Path| {
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path);
        file.map_err(|error| (Failure::Log, format!("{}: {error}", path.display())))
    };
    let out = open(stdout)?;
    let err = if stdout == stderr {
        out.try_clone().map_err(|e| (Failure::Log, e.to_string()))
    } else {
        open(stderr)
    };
    Ok((out, err?))
}
