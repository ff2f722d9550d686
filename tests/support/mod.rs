//! What the tests of the real binary share: a place of their own to run it
//! in, and what must be true of that place afterwards.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use orchestrate::process::tree;
use orchestrate::state::{NodeRow, State};
use orchestrate::store::Store;
use serde_json::Value;
use tempfile::TempDir;

pub mod schemas;

/// The binary under test.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_orchestrate");
/// The repository.
pub const PROJECT: &str = env!("CARGO_MANIFEST_DIR");

/// A directory in which `orchestrate` runs. Everything that it starts has the
/// directory as its own, or names it, and is found by that.
pub struct Scene {
    dir: TempDir,
    variables: Vec<(OsString, OsString)>,
}

/// A run that has ended.
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    pub took: Duration,
}

/// A run that goes on; dropping it ends it.
pub struct Running {
    child: Child,
    begun: Instant,
    dir: PathBuf,
}

impl Scene {
    /// A scene with a home, a temporary directory and an empty store of its
    /// own, and nothing of the user's environment but PATH.
    pub fn isolated() -> Self {
        Self::isolated_in(tempfile::tempdir().unwrap())
    }

    /// An isolated scene in memory, where the system has a place for that:
    /// nothing waits for a disk.
    pub fn in_memory() -> Self {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        Self::isolated_in(dir.unwrap())
    }

    fn isolated_in(dir: TempDir) -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let own = |name: &str| dir.path().join(name).into_os_string();
        fs::create_dir(dir.path().join("tmp")).unwrap();
        let variables = [
            ("PATH", path),
            ("HOME", own("home")),
            ("TMPDIR", own("tmp")),
            ("ORCHESTRATE_STORE", own("store")),
            ("LANG", "C.UTF-8".into()),
            ("COLUMNS", "100".into()),
        ];
        let variables = variables.map(|(name, value)| (OsString::from(name), value)).to_vec();
        Self { dir, variables }
    }

    /// A scene with the user's environment and store; only the project's
    /// state is its own.
    pub fn of_the_user() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), variables: std::env::vars_os().collect() }
    }

    /// Sets a variable of the environment.
    pub fn with(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.into(), value.into()));
        self
    }

    /// A path in the scene.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file of the scene.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// Runs `orchestrate` to its end.
    pub fn run(&self, arguments: &[&str]) -> Ended {
        self.start(arguments).wait()
    }

    /// Starts `orchestrate` in the scene's directory, its output in files.
    pub fn start(&self, arguments: &[&str]) -> Running {
        let file = |name: &str| fs::File::create(self.path(name)).unwrap();
        let begun = Instant::now();
        let child = self
            .command(PROGRAM)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(file("stdout"))
            .stderr(file("stderr"))
            .spawn()
            .unwrap();
        Running { child, begun, dir: self.dir.path().to_owned() }
    }

    /// A program in the scene's directory and environment.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.dir.path())
            .env_clear()
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// The project's state, which must be there.
    pub fn state(&self) -> State {
        State::open_existing(&self.path(".orchestrate")).unwrap().unwrap()
    }

    /// The records of the newest run.
    pub fn records(&self) -> Vec<NodeRow> {
        let state = self.state();
        let run = state.latest_run(None).unwrap().unwrap();
        state.node_records(&run).unwrap()
    }

    /// The store that the scene's runs use.
    pub fn store(&self) -> Store {
        let named =
            |name: &str| self.variables.iter().find(|(known, _)| known == name).map(|(_, value)| value);
        let root = match (named("ORCHESTRATE_STORE"), named("XDG_CACHE_HOME")) {
            (Some(store), _) => PathBuf::from(store),
            (None, Some(cache)) => Path::new(cache).join("orchestrate"),
            (None, None) => Path::new(named("HOME").unwrap()).join(".cache/orchestrate"),
        };
        Store::open(&root).unwrap()
    }

    /// The evidence documents of the newest run, by node and kind.
    pub fn evidence(&self) -> Vec<(String, String, Value)> {
        let store = self.store();
        let left = |row: NodeRow| {
            let document = store.get_json(row.evidence?.parse().unwrap()).unwrap();
            Some((row.node, row.kind, document))
        };
        self.records().into_iter().filter_map(left).collect()
    }

    /// Kinds of the nodes whose results are in the scene's own store, sorted.
    pub fn stored_kinds(&self) -> Vec<String> {
        let mut kinds: Vec<String> = files_below(&self.path("store/results"))
            .iter()
            // Earlier measurements lie beside the newest.
            .filter(|path| !path.parent().unwrap().to_string_lossy().ends_with(".attempts"))
            .map(|path| {
                let result: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
                result["key_document"]["kind"].as_str().unwrap().to_owned()
            })
            .collect();
        kinds.sort();
        kinds
    }

    /// Nothing of a failed run is half there: results of these kinds and no
    /// other, no temporary file, no report, no process.
    pub fn assert_clean(&self, stored: &[&str]) {
        assert_eq!(self.stored_kinds(), stored, "results in the store");
        assert_eq!(
            files_below(&self.path("store/tmp")),
            Vec::<PathBuf>::new(),
            "temporary files of the store"
        );
        assert!(!self.path(".orchestrate/reports").exists(), "a report was published");
        self.assert_nothing_runs();
    }

    /// Nothing was run at all: the command did not come to it.
    pub fn assert_untouched(&self) {
        assert!(!self.path("store").exists(), "the store was made");
        assert!(!self.path(".orchestrate").exists(), "the state was made");
        self.assert_nothing_runs();
    }

    /// Processes that belong to the scene, as `ps` would show them.
    pub fn processes(&self) -> Vec<(u32, String)> {
        let dir = self.dir.path().display().to_string().into_bytes();
        let mentions = |bytes: &[u8]| bytes.windows(dir.len()).any(|window| window == dir);
        let belongs = |pid: &u32| {
            let read = |name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
            let cwd = fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
            let is_running = fs::read_link(format!("/proc/{pid}/exe")).is_ok();
            *pid != std::process::id()
                && is_running
                && (mentions(cwd.as_os_str().as_encoded_bytes())
                    || mentions(&read("cmdline"))
                    || mentions(&read("environ")))
        };
        let pids = tree::pids().into_iter().filter(belongs);
        pids.filter_map(|pid| Some((pid, tree::command_of(pid)?))).collect()
    }

    /// `ps` shows nothing of ours.
    pub fn assert_nothing_runs(&self) {
        assert_eq!(self.processes(), Vec::new());
    }

    /// `ps` shows nothing of ours soon.
    pub fn await_nothing_runs(&self) {
        wait_for("the end of every process", Duration::from_secs(5), || {
            self.processes().is_empty().then_some(())
        });
    }

    /// Waits for a process of the scene whose command contains a text.
    pub fn await_process(&self, text: &str, within: Duration) -> u32 {
        wait_for(&format!("a process {text}"), within, || {
            self.processes().into_iter().find(|(_, command)| command.contains(text)).map(|(pid, _)| pid)
        })
    }
}

impl Running {
    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has not ended yet.
    pub fn is_running(&self) -> bool {
        fs::read_link(format!("/proc/{}/exe", self.child.id())).is_ok()
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// What it has written to standard error.
    pub fn stderr(&self) -> String {
        read(&self.dir.join("stderr"))
    }

    /// Waits for its end, which must come in time.
    pub fn wait_within(mut self, limit: Duration) -> Ended {
        wait_for("the end of the run", limit, || self.child.try_wait().unwrap());
        self.wait()
    }

    /// Waits for its end.
    pub fn wait(mut self) -> Ended {
        let code = self.child.wait().unwrap().code();
        let took = self.begun.elapsed();
        Ended { code, stdout: read(&self.dir.join("stdout")), stderr: self.stderr(), took }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The supervisors end what it started.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    /// The nodes that failed, why, and the ends of their logs.
    pub fn failures(&self) -> String {
        let mut shown = Vec::new();
        let mut inside = false;
        for line in self.stderr.lines() {
            inside = line.starts_with("failed ") || (inside && line.starts_with(' '));
            if inside {
                shown.push(line);
            }
        }
        shown.join("\n")
    }

    /// The nodes of one outcome, by the run's own lines.
    pub fn nodes(&self, outcome: &str) -> Vec<&str> {
        let lines = self.stderr.lines().filter_map(|line| line.strip_prefix(outcome));
        let mut nodes: Vec<_> = lines
            .filter(|rest| rest.starts_with(' '))
            .filter_map(|rest| rest.split_whitespace().next())
            .map(|name| name.trim_end_matches(':'))
            .collect();
        nodes.sort_unstable();
        nodes
    }
}

/// Hides in snapshots what differs from run to run, until it is dropped.
pub fn redacting() -> impl Drop {
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"(/[\w.-]+)*/\.tmp\w{6}", "[DIR]");
    settings.add_filter(&PROJECT.replace('.', r"\."), "[PROJECT]");
    settings.add_filter("[0-9a-f]{64}", "[DIGEST]");
    settings.add_filter(r"\b\d{8}T\d{6}Z-\d+\b", "[RUN]");
    settings.add_filter(r"\b(pid|process|port) \d+", "$1 [N]");
    settings.add_filter(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "[INSTANT]");
    settings.add_filter(r"\b\d{4}-\d\d-\d\d\b", "[DATE]");
    settings.add_filter(r"stopped after [\d.]+ s", "stopped after [TIME]");
    settings.add_filter(r" (\d+m)?[\d.]+m?s\b", " [TIME]");
    settings.bind_to_scope()
}

/// Sends a signal to one process.
pub fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid.try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

/// Waits until something is there, looking often.
pub fn wait_for<T>(what: &str, within: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < within, "{what} did not come within {} s", within.as_secs());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Every file below a directory; none where it is missing.
pub fn files_below(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned()
}
