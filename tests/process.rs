//! Children that misbehave, under the real supervisor. Every test ends by
//! looking through `/proc` for anything that carries its mark.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use orchestrate::process::{
    Cause, Child, Command, Ended, Exit, Identity, SpawnError, base_environment, spawn, tree,
};
use rustix::process::Signal;
use tempfile::TempDir;

const SUPERVISOR: &str = env!("CARGO_BIN_EXE_orchestrate");
const MARK: &str = "ORCHESTRATE_TEST_MARK";
const SOON: Duration = Duration::from_secs(2);

/// A directory for logs, and a mark that all processes of one test inherit.
struct Scene {
    dir: TempDir,
}

impl Scene {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, argv: &[&str]) -> Command {
        let mut env = base_environment(std::env::vars_os());
        env.insert(MARK.to_owned(), self.mark());
        Command {
            argv: argv.iter().map(ToString::to_string).collect(),
            cwd: self.dir.path().to_owned(),
            env,
            stdout: self.path("out.log"),
            stderr: self.path("err.log"),
            timeout: None,
            grace: Duration::from_millis(200),
        }
    }

    fn shell(&self, script: &str) -> Command {
        self.command(&["sh", "-c", script])
    }

    async fn start(&self, command: Command) -> Child {
        spawn(Path::new(SUPERVISOR), command).await.unwrap()
    }

    async fn run(&self, script: &str) -> Ended {
        let mut child = self.start(self.shell(script)).await;
        let ended = child.wait().await.unwrap();
        assert!(!child.supervisor().is_alive());
        self.assert_nothing_is_left();
        ended
    }

    fn mark(&self) -> String {
        self.dir.path().display().to_string()
    }

    /// The marked processes that run, wherever they hide.
    fn left(&self) -> Vec<String> {
        let mark = format!("{MARK}={}\0", self.mark()).into_bytes();
        tree::pids()
            .into_iter()
            .filter(|pid| {
                let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
                environment.windows(mark.len()).any(|window| window == mark)
            })
            .filter_map(|pid| Some(format!("{pid} {}", tree::command_of(pid)?)))
            .collect()
    }

    fn assert_nothing_is_left(&self) {
        assert_eq!(self.left(), [""; 0]);
    }

    fn assert_all_gone_soon(&self) {
        let begun = Instant::now();
        while !self.left().is_empty() {
            assert!(begun.elapsed() < SOON, "still there: {:?}", self.left());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until the child has written this many bytes, so that its tree stands.
    fn await_output(&self, bytes: u64) {
        let begun = Instant::now();
        while fs::metadata(self.path("out.log")).map_or(0, |log| log.len()) < bytes {
            assert!(begun.elapsed() < Duration::from_secs(20), "the child did not come up");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Starts a process that ignores TERM, a daemon in a session of its own and a
/// process in another group, then waits for ever.
const WILD_TREE: &str = r#"
    sh -c 'trap "" TERM HUP; while :; do sleep 300; done' &
    (setsid sh -c 'trap "" HUP; echo d; sleep 300' &)
    python3 -c 'import os, time; os.setpgid(0, 0); print("g", flush=True); time.sleep(300)' &
    echo up
    wait
"#;
/// What [`WILD_TREE`] has written when it stands.
const WILD_TREE_UP: u64 = 7;

#[tokio::test]
async fn exit_codes_and_signals_are_told_apart() {
    let scene = Scene::new();
    let ended = scene.run("exit 0").await;
    assert!(ended.success() && ended.killed == 0 && ended.leftovers.is_empty());
    let ended = scene.run("exit 3").await;
    assert_eq!((ended.exit, ended.cause), (Exit::Code(3), Cause::Exited));
    assert_eq!(ended.to_string(), "exited with 3");
    let ended = scene.run("kill -9 $$").await;
    assert_eq!(ended.exit, Exit::Signal(9));
    assert_eq!(ended.to_string(), "killed by SIGKILL");
}

#[tokio::test]
async fn stop_ends_the_whole_tree_whatever_it_does_to_escape() {
    let scene = Scene::new();
    let mut child = scene.start(scene.shell(WILD_TREE)).await;
    scene.await_output(WILD_TREE_UP);
    assert!(scene.left().len() >= 5, "{:?}", scene.left());
    assert_eq!(Identity::of(child.pid()), Some(child.identity()));
    child.stop();
    let ended = child.wait().await.unwrap();
    scene.assert_nothing_is_left();
    assert_eq!((ended.exit, ended.cause), (Exit::Signal(15), Cause::Stopped));
    assert!(ended.killed >= 1, "the one that ignores TERM was killed: {ended:?}");
    assert!(ended.leftovers.is_empty() && ended.survivors.is_empty());
}

#[tokio::test]
async fn a_process_that_starts_another_when_told_to_end_gains_nothing() {
    let scene = Scene::new();
    let script = r#"trap 'setsid sh -c "trap : TERM; while :; do sleep 1; done" &' TERM
                    echo up; while :; do sleep 0.05; done"#;
    let mut child = scene.start(scene.shell(script)).await;
    scene.await_output(3);
    child.stop();
    assert!(child.wait().await.unwrap().killed >= 2);
    scene.assert_nothing_is_left();
}

#[tokio::test]
async fn a_stopped_process_is_ended_too() {
    let scene = Scene::new();
    let mut child = scene.start(scene.shell("echo up; kill -STOP $$; sleep 300")).await;
    scene.await_output(3);
    child.stop();
    let ended = child.wait().await.unwrap();
    assert_eq!((ended.exit, ended.killed), (Exit::Signal(15), 0));
    scene.assert_nothing_is_left();
}

#[tokio::test]
async fn a_daemon_left_behind_is_ended_and_named() {
    let scene = Scene::new();
    let ended = scene.run("(setsid sleep 299.5 &); exit 0").await;
    assert_eq!((ended.exit, ended.cause, ended.killed), (Exit::Code(0), Cause::Exited, 0));
    let commands: Vec<&str> = ended.leftovers.iter().map(|left| left.command.as_str()).collect();
    assert_eq!(commands, ["sleep 299.5"]);
}

#[tokio::test]
async fn a_helper_that_follows_the_child_by_itself_is_no_leftover() {
    let ended = Scene::new().run("(setsid sleep 0.03 &); exit 0").await;
    assert_eq!(ended.leftovers, []);
}

#[tokio::test]
async fn a_time_limit_ends_the_tree() {
    let scene = Scene::new();
    let mut command = scene.shell("sleep 300 & sleep 300");
    command.timeout = Some(Duration::from_millis(100));
    let begun = Instant::now();
    let ended = scene.start(command).await.wait().await.unwrap();
    assert_eq!((ended.exit, ended.cause), (Exit::Signal(15), Cause::Timeout));
    assert!(begun.elapsed() < SOON && !ended.success());
    scene.assert_nothing_is_left();
}

#[tokio::test]
async fn kill_does_not_wait_for_the_grace() {
    let scene = Scene::new();
    let mut command = scene.shell(r#"trap "" TERM; echo up; while :; do sleep 300; done"#);
    command.grace = Duration::from_secs(600);
    let mut child = scene.start(command).await;
    scene.await_output(3);
    let stopper = child.stopper();
    stopper.stop();
    let early = tokio::time::timeout(Duration::from_millis(150), child.wait()).await;
    assert!(early.is_err(), "the grace holds");
    stopper.kill();
    let ended = child.wait().await.unwrap();
    assert_eq!((ended.exit, ended.cause), (Exit::Signal(9), Cause::Stopped));
    scene.assert_nothing_is_left();
}

#[tokio::test]
async fn a_wait_can_be_cancelled_and_another_task_can_stop() {
    let scene = Scene::new();
    let mut child = scene.start(scene.shell("sleep 300")).await;
    for _ in 0..3 {
        let wait = tokio::time::timeout(Duration::from_millis(5), child.wait()).await;
        assert!(wait.is_err());
    }
    let stopper = child.stopper();
    let stop = tokio::spawn(async move { stopper.stop() });
    let ended = child.wait().await.unwrap();
    stop.await.unwrap();
    assert_eq!(child.wait().await.unwrap(), ended, "a second wait answers at once");
    scene.assert_nothing_is_left();
}

#[tokio::test]
async fn dropping_the_child_ends_its_tree() {
    let scene = Scene::new();
    let child = scene.start(scene.shell(WILD_TREE)).await;
    scene.await_output(WILD_TREE_UP);
    let (supervisor, stopper) = (child.supervisor(), child.stopper());
    drop(child);
    scene.assert_all_gone_soon();
    let begun = Instant::now();
    while supervisor.is_alive() {
        assert!(begun.elapsed() < SOON);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    stopper.stop();
}

#[tokio::test]
async fn a_killed_supervisor_is_noticed_and_its_session_swept() {
    let scene = Scene::new();
    let mut child = scene.start(scene.shell("sh -c 'sleep 300' & echo up; wait")).await;
    scene.await_output(3);
    assert!(child.supervisor().signal(Signal::KILL));
    let lost = child.wait().await.unwrap_err();
    assert!(lost.swept >= 2, "{lost}");
    scene.assert_all_gone_soon();
    assert_eq!(child.wait().await.unwrap_err().swept, lost.swept, "once lost, always lost");
}

#[tokio::test]
async fn signals_of_a_terminal_do_not_end_the_supervisor_and_term_is_a_stop() {
    let scene = Scene::new();
    let mut child = scene.start(scene.shell("sleep 300")).await;
    for signal in [Signal::INT, Signal::HUP] {
        assert!(child.supervisor().signal(signal));
    }
    let early = tokio::time::timeout(Duration::from_millis(50), child.wait()).await;
    assert!(early.is_err());
    child.supervisor().signal(Signal::TERM);
    assert_eq!(child.wait().await.unwrap().cause, Cause::Stopped);
    scene.assert_nothing_is_left();
}

#[tokio::test]
async fn the_supervisor_stands_in_a_session_and_the_child_in_a_group_of_its_own() {
    let scene = Scene::new();
    let mut child = scene.start(scene.shell("echo up; kill -TERM 0; sleep 300")).await;
    scene.await_output(3);
    let supervisor = tree::Process::read(child.supervisor().pid).unwrap();
    assert_eq!(supervisor.session, supervisor.identity.pid);
    // The child has signalled its own group, which did not reach the supervisor.
    assert_eq!(child.wait().await.unwrap().exit, Exit::Signal(15));
}

#[tokio::test]
async fn a_flood_of_output_arrives_in_full_and_blocks_nobody() {
    let scene = Scene::new();
    let mut command = scene.shell("head -c 52428800 /dev/zero; echo end >&2");
    command.stderr = command.stdout.clone();
    let ended = scene.start(command).await.wait().await.unwrap();
    assert!(ended.success());
    assert_eq!(fs::metadata(scene.path("out.log")).unwrap().len(), 52_428_800 + 4);
}

#[tokio::test]
async fn output_is_kept_byte_for_byte_appended_and_private() {
    let scene = Scene::new();
    let script = r"printf '\377\000\033'; printf 'e\200' >&2";
    scene.run(script).await;
    scene.run(script).await;
    assert_eq!(fs::read(scene.path("out.log")).unwrap(), b"\xff\0\x1b\xff\0\x1b");
    assert_eq!(fs::read(scene.path("err.log")).unwrap(), b"e\x80e\x80");
    let mode = fs::metadata(scene.path("out.log")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn a_child_sees_only_the_environment_and_directory_it_was_given() {
    let scene = Scene::new();
    let mut command = scene.command(&["/bin/sh", "-c", "env; cat; echo PWD is `pwd`"]);
    command.env = BTreeMap::from([
        ("PATH".to_owned(), "/usr/bin:/bin".to_owned()),
        ("SPOKEN".to_owned(), "two\nlines".to_owned()),
    ]);
    assert!(scene.start(command).await.wait().await.unwrap().success());
    let text = fs::read_to_string(scene.path("out.log")).unwrap();
    let mut lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("_=")).collect();
    lines.sort_unstable();
    let dir = scene.dir.path().canonicalize().unwrap();
    let (pwd, said) = (format!("PWD={}", dir.display()), format!("PWD is {}", dir.display()));
    let expected = ["PATH=/usr/bin:/bin", &said, &pwd, "SPOKEN=two", "lines"];
    assert_eq!(lines, expected);
}

#[tokio::test]
async fn a_program_that_cannot_start_says_why_and_what_to_do() {
    let scene = Scene::new();
    let file = |name: &str, text: &str, mode| {
        fs::write(scene.path(name), text).unwrap();
        fs::set_permissions(scene.path(name), fs::Permissions::from_mode(mode)).unwrap();
        scene.path(name).display().to_string()
    };
    let data = file("data", "x", 0o644);
    let script = file("script", "#!/no/such/interpreter\n", 0o755);
    let foreign = file("foreign", "\x7fELF but not of this machine", 0o755);
    let refused = async |command: Command| {
        let error = spawn(Path::new(SUPERVISOR), command).await.unwrap_err();
        scene.assert_nothing_is_left();
        error
    };

    let error = refused(scene.command(&["no-such-program"])).await;
    assert!(matches!(error, SpawnError::NotFound { .. }), "{error}");
    assert!(error.to_string().contains(&std::env::var("PATH").unwrap()), "{error}");
    let error = refused(scene.command(&["./no-such-program"])).await;
    assert!(matches!(error, SpawnError::NotFound { .. }), "{error}");
    let error = refused(scene.command(&[&data])).await;
    assert!(matches!(error, SpawnError::NotExecutable { .. }), "{error}");
    let error = refused(scene.command(&[&foreign])).await;
    assert!(matches!(error, SpawnError::NotExecutable { .. }), "{error}");
    let error = refused(scene.command(&["./script"])).await;
    assert!(matches!(error, SpawnError::NoInterpreter { .. }), "{error}");
    assert!(error.to_string().contains(&script), "{error}");
    let error = refused(Command { cwd: scene.path("none"), ..scene.shell("true") }).await;
    assert!(matches!(error, SpawnError::NoDirectory { .. }), "{error}");
    let error = refused(Command { stdout: scene.path("none/log"), ..scene.shell("true") }).await;
    assert!(matches!(error, SpawnError::Log { .. }), "{error}");
}

#[tokio::test]
async fn a_supervisor_that_is_none_is_named() {
    let scene = Scene::new();
    for exe in ["/no/such/orchestrate", "/bin/true"] {
        let error = spawn(Path::new(exe), scene.shell("true")).await.unwrap_err();
        assert!(matches!(error, SpawnError::Supervisor { .. }), "{error}");
        assert!(error.to_string().contains(exe), "{error}");
    }
}

#[test]
fn a_supervisor_whose_reader_is_gone_still_does_its_work() {
    let scene = Scene::new();
    let spec = serde_json::json!({
        "program": "/bin/sh", "argv": ["sh", "-c", "echo up; sleep 300 & wait"],
        "cwd": scene.dir.path(), "env": {"PATH": "/usr/bin:/bin", MARK: scene.mark()},
        "stdout": scene.path("out.log"), "stderr": scene.path("out.log"),
        "timeout_ms": null, "grace_ms": 200,
    });
    let mut supervisor = std::process::Command::new(SUPERVISOR)
        .arg("__supervise")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(supervisor.stdout.take());
    let mut stdin = supervisor.stdin.take().unwrap();
    writeln!(stdin, "{spec}").unwrap();
    scene.await_output(3);
    assert!(!scene.left().is_empty());
    drop(stdin);
    assert!(supervisor.wait().unwrap().success());
    scene.assert_nothing_is_left();
}

const SCENE_OF_HELPER: &str = "ORCHESTRATE_TEST_SCENE";

#[test]
fn nothing_outlives_an_orchestrator_that_is_killed() {
    let scene = Scene::new();
    let mut orchestrator = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "orchestrator_that_gets_killed", "--ignored", "--nocapture"])
        .env(SCENE_OF_HELPER, scene.dir.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(orchestrator.stdout.take().unwrap()).lines();
    let supervisor = lines
        .map_while(Result::ok)
        .find_map(|line| line.split_once("supervisor=")?.1.parse::<u32>().ok())
        .and_then(Identity::of)
        .unwrap();
    scene.await_output(WILD_TREE_UP);
    assert!(scene.left().len() >= 5, "{:?}", scene.left());
    orchestrator.kill().unwrap();
    orchestrator.wait().unwrap();
    let begun = Instant::now();
    scene.assert_all_gone_soon();
    while supervisor.is_alive() {
        assert!(begun.elapsed() < SOON, "the supervisor itself stays");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[tokio::test]
#[ignore = "the test above starts this as a process of its own, and kills it"]
async fn orchestrator_that_gets_killed() {
    let Some(dir) = std::env::var_os(SCENE_OF_HELPER) else {
        return;
    };
    let dir = PathBuf::from(dir);
    let mut env = base_environment(std::env::vars_os());
    env.insert(MARK.to_owned(), dir.display().to_string());
    let command = Command {
        argv: ["sh", "-c", WILD_TREE].map(str::to_owned).to_vec(),
        cwd: dir.clone(),
        env,
        stdout: dir.join("out.log"),
        stderr: dir.join("err.log"),
        timeout: None,
        grace: Duration::from_millis(200),
    };
    let mut child = spawn(Path::new(SUPERVISOR), command).await.unwrap();
    println!("\nsupervisor={}", child.supervisor().pid);
    let _ = child.wait().await;
}
