//! Runs a table of misbehaving children: starts each, ends it in its way, and
//! looks at what was told of it and at what is left of it in `/proc`.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use orchestrate::process::{
    Cause, Child, Command, Containment, Ended, Exit, base_environment, spawn_within, tree,
};
use rustix::process::Signal;
use tempfile::TempDir;

use super::misbehave;

pub const SUPERVISOR: &str = env!("CARGO_BIN_EXE_orchestrate");
const MARK: &str = "ORCHESTRATE_TEST_MARK";
const FAMILY_ALONE: &str = "ORCHESTRATE_TEST_FAMILY_ALONE";
/// How many children misbehave at the same time.
const WORKERS: usize = 4;
/// Far more than a case takes on a busy machine.
const LONG: Duration = Duration::from_secs(60);
/// How long what is ended by nobody's word may take.
const SOON: Duration = Duration::from_secs(5);
const GRACE: Duration = Duration::from_millis(200);
const ENDLESS_GRACE: Duration = Duration::from_secs(600);

pub struct Case {
    pub name: &'static str,
    pub script: &'static str,
    pub by: By,
    pub expected: Expected,
}

/// What ends a child, once it has said `up` as often as its script does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum By {
    Itself,
    Stop,
    Kill,
    StopThenKill,
    /// A time limit in milliseconds.
    Limit(u64),
    SupervisorTold,
    SupervisorKilled,
    Dropped,
    OrchestratorKilled,
}

pub struct Expected {
    told: Told,
    killed: RangeInclusive<usize>,
    leftovers: usize,
    wrote: Option<u64>,
    pub needs_cgroup: bool,
}

enum Told {
    Ended(Exit, Cause),
    Lost,
    Nothing,
}

impl Expected {
    fn new(told: Told) -> Self {
        Self { told, killed: 0..=0, leftovers: 0, wrote: None, needs_cgroup: false }
    }

    pub fn ended(exit: Exit, cause: Cause) -> Self {
        Self::new(Told::Ended(exit, cause))
    }

    /// The supervisor could not tell how it ended.
    pub fn lost() -> Self {
        Self::new(Told::Lost)
    }

    /// Nobody is there to be told.
    pub fn gone() -> Self {
        Self::new(Told::Nothing)
    }

    pub fn killed(self, number: usize) -> Self {
        Self { killed: number..=number, ..self }
    }

    pub fn killed_at_least(self, number: usize) -> Self {
        Self { killed: number..=usize::MAX, ..self }
    }

    pub fn leftovers(self, leftovers: usize) -> Self {
        Self { leftovers, ..self }
    }

    /// So many bytes are in its log.
    pub fn wrote(self, bytes: u64) -> Self {
        Self { wrote: Some(bytes), ..self }
    }

    pub fn only_with_cgroup(self) -> Self {
        Self { needs_cgroup: true, ..self }
    }

    fn check(&self, ended: &Ended) -> Result<(), String> {
        let Told::Ended(exit, cause) = self.told else { return Err(format!("an end was told: {ended:?}")) };
        let is_right = (ended.exit, ended.cause) == (exit, cause)
            && self.killed.contains(&ended.killed)
            && ended.leftovers.len() == self.leftovers
            && ended.survivors.is_empty();
        is_right.then_some(()).ok_or_else(|| format!("{ended:?}"))
    }
}

/// Runs all cases, a few at a time, and tells of all that went wrong.
pub fn run_all(cases: &[Case], containment: Containment) {
    let open = Mutex::new(cases.iter());
    let wrong = Mutex::new(Vec::new());
    let work = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        loop {
            let Some(case) = open.lock().unwrap().next() else { return };
            if case.expected.needs_cgroup && !has_cgroups() {
                continue;
            }
            let begun = Instant::now();
            let limited = async { tokio::time::timeout(LONG, case.run(containment)).await };
            let outcome = runtime.block_on(limited).unwrap_or_else(|_| Err("it takes too long".to_owned()));
            if let Err(reason) = outcome {
                wrong.lock().unwrap().push(format!(
                    "{}, {:?}, {:?}: {reason}",
                    case.name,
                    case.by,
                    begun.elapsed()
                ));
            }
        }
    };
    std::thread::scope(|threads| (0..WORKERS).for_each(|_| drop(threads.spawn(work))));
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

impl Case {
    async fn run(&self, containment: Containment) -> Result<(), String> {
        let scene = Scene::new();
        if self.by == By::OrchestratorKilled {
            let mut orchestrator = scene.start_orchestrator(self.script, containment);
            scene.await_said(self.says());
            orchestrator.kill().unwrap();
            orchestrator.wait().unwrap();
            return scene.soon_nothing_is_left();
        }
        let mut command = scene.command(self.script);
        match self.by {
            By::Kill | By::StopThenKill => command.grace = ENDLESS_GRACE,
            By::Limit(millis) => command.timeout = Some(Duration::from_millis(millis)),
            _ => {}
        }
        let mut child =
            spawn_within(Path::new(SUPERVISOR), command, containment).await.map_err(|e| e.to_string())?;
        if !matches!(self.by, By::Itself | By::Limit(_)) {
            scene.await_said(self.says());
        }
        self.end(&child);
        if self.by == By::Dropped {
            drop(child);
            return scene.soon_nothing_is_left();
        }
        match (child.wait().await, &self.expected.told) {
            (Ok(ended), _) => self.expected.check(&ended)?,
            (Err(_), Told::Lost) => return scene.soon_nothing_is_left(),
            (Err(lost), _) => return Err(lost.to_string()),
        }
        if self.expected.wrote.is_some_and(|bytes| bytes != scene.written()) {
            return Err(format!("{} bytes are in the log", scene.written()));
        }
        scene.nothing_is_left()
    }

    fn end(&self, child: &Child) {
        match self.by {
            By::Stop => child.stop(),
            By::Kill => child.kill(),
            By::StopThenKill => {
                child.stop();
                child.kill();
            }
            By::SupervisorTold => assert!(child.supervisor().signal(Signal::TERM)),
            By::SupervisorKilled => assert!(child.supervisor().signal(Signal::KILL)),
            By::Itself | By::Limit(_) | By::Dropped | By::OrchestratorKilled => {}
        }
    }

    /// How often `up` is written when its tree stands.
    fn says(&self) -> u64 {
        let bomb = self.script.strip_prefix("bomb ").and_then(|rest| rest.split(';').next()?.parse().ok());
        let words = self.script.split(|c: char| !c.is_alphanumeric());
        let says = words.take_while(|word| *word != "told").filter(|word| *word == "say").count();
        bomb.unwrap_or(says as u64 + u64::from(self.script.starts_with("told")))
    }
}

/// A directory for logs, and a mark that all processes of a case carry.
pub struct Scene {
    dir: TempDir,
}

impl Scene {
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn mark(&self) -> String {
        self.dir.path().display().to_string()
    }

    /// Where a script's output is.
    pub fn log(&self) -> PathBuf {
        self.dir.path().join("err.log")
    }

    fn written(&self) -> u64 {
        fs::metadata(self.log()).map_or(0, |log| log.len())
    }

    /// A process that follows a script.
    pub fn command(&self, script: &str) -> Command {
        command(self.dir.path(), script)
    }

    /// Waits until `up` was written so often.
    pub fn await_said(&self, times: u64) {
        let begun = Instant::now();
        while self.written() < times * 3 {
            assert!(begun.elapsed() < LONG, "only {} bytes were said", self.written());
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn start_orchestrator(&self, script: &str, containment: Containment) -> std::process::Child {
        let mut orchestrator = std::process::Command::new(std::env::current_exe().unwrap());
        orchestrator.args(["orchestrates", "--exact", "--ignored", "--nocapture"]).stdout(Stdio::piped());
        orchestrator.env(MARK, self.mark()).envs([misbehave::variable(script)]);
        if containment == Containment::Family {
            orchestrator.env(FAMILY_ALONE, "");
        }
        let mut orchestrator = orchestrator.spawn().unwrap();
        let stdout = orchestrator.stdout.take().unwrap();
        BufReader::new(stdout).lines().map_while(Result::ok).find(|line| line == "started").unwrap();
        orchestrator
    }

    /// The marked processes that run, wherever they hide.
    fn left(&self) -> Vec<String> {
        let mark = self.mark().into_bytes();
        let is_marked = |pid: &u32| {
            let read = |name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
            let mentions = |bytes: &[u8]| bytes.windows(mark.len()).any(|window| window == mark);
            mentions(&read("environ")) || mentions(&read("cmdline"))
        };
        let marked = tree::pids().into_iter().filter(is_marked);
        marked.filter_map(|pid| Some(format!("{pid} {}", tree::command_of(pid)?))).collect()
    }

    fn nothing_is_left(&self) -> Result<(), String> {
        let left = self.left();
        if left.is_empty() { Ok(()) } else { Err(format!("left: {left:?}")) }
    }

    fn soon_nothing_is_left(&self) -> Result<(), String> {
        let begun = Instant::now();
        while begun.elapsed() < SOON && self.nothing_is_left().is_err() {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.nothing_is_left()
    }

    pub fn assert_nothing_is_left(&self) {
        self.nothing_is_left().unwrap();
    }
}

fn command(dir: &Path, script: &str) -> Command {
    let mark = dir.display().to_string();
    let mut env: BTreeMap<String, String> = base_environment(std::env::vars_os());
    env.extend([(MARK.to_owned(), mark.clone()), misbehave::variable(script)]);
    Command {
        argv: misbehave::argv(&mark),
        cwd: dir.to_owned(),
        env,
        stdout: dir.join("out.log"),
        stderr: dir.join("err.log"),
        timeout: None,
        grace: GRACE,
    }
}

/// Plays the orchestrator that gets killed.
pub fn orchestrate() {
    let Some(dir) = std::env::var_os(MARK).map(PathBuf::from) else { return };
    let containment =
        if std::env::var_os(FAMILY_ALONE).is_some() { Containment::Family } else { Containment::Cgroup };
    let command = command(&dir, &misbehave::script().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut child = spawn_within(Path::new(SUPERVISOR), command, containment).await.unwrap();
        println!("\nstarted");
        let _ = child.wait().await;
    });
}

/// Whether this process may make a cgroup beside itself.
pub fn has_cgroups() -> bool {
    let Some(home) = cgroup_of(std::process::id()) else { return false };
    let probe = home.join(format!("probe-of-tests-{}-{:?}", std::process::id(), std::thread::current().id()));
    fs::create_dir(&probe).and_then(|()| fs::remove_dir(&probe)).is_ok()
}

/// The directory of the cgroup (v2) that a process is in, where the whole hierarchy is mounted.
pub fn cgroup_of(pid: u32) -> Option<PathBuf> {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let place = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let mount = mounts.lines().find(|line| line.contains(" - cgroup2 "))?;
    Some(Path::new(mount.split(' ').nth(4)?).join(place))
}
