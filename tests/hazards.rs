//! What has gone wrong elsewhere with processes and their logs, each by its
//! name: plans of steps that behave so, run by the real binary.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use support::{Ended, Running, Scene, files_below, signal, wait_for};

/// More than any of these runs takes on a busy machine.
const LONG: Duration = Duration::from_secs(60);
/// What a person can look through, in bytes.
const READABLE: usize = 16 << 10;

/// Runs a plan of one step, a line of shell, and of one that needs it.
fn run(scene: &Scene, line: &str) -> Ended {
    start(scene, line).wait_within(LONG)
}

fn start(scene: &Scene, line: &str) -> Running {
    scene.write("plan.yaml", plan(line));
    scene.start(&["apply", "plan.yaml"])
}

fn plan(line: &str) -> String {
    format!(
        "\
orchestrate: 1
name: hazard
nodes:
  step:
    run:
      command: [sh, -c, '{line}']
      outputs: {{out: out}}
  next:
    run:
      command: [sh, -c, 'cat in > out']
      inputs: {{in: '${{nodes.step.out}}'}}
      outputs: {{out: out}}
"
    )
}

fn log_of_step(scene: &Scene) -> u64 {
    fs::metadata(await_log(scene)).unwrap().len()
}

fn await_up(scene: &Scene) {
    let log = await_log(scene);
    wait_for("the step", LONG, || fs::read(&log).is_ok_and(|text| text == b"up\n").then_some(()));
}

fn await_log(scene: &Scene) -> PathBuf {
    wait_for("the log", LONG, || {
        let logs = files_below(&scene.path(".orchestrate/runs"));
        logs.into_iter().find(|path| path.ends_with("step/log"))
    })
}

#[test]
fn output_that_is_not_utf_8_stops_nothing() {
    let scene = Scene::isolated();
    let ended = run(&scene, r#"head -c 1000000 /dev/urandom; printf "\377\000\200" >&2; echo > out"#);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(log_of_step(&scene), 1_000_003);
}

#[test]
fn a_single_line_of_100_mb_stops_nothing_and_hides_no_other() {
    let scene = Scene::isolated();
    let line = r#"head -c 100000000 /dev/zero | tr "\000" x; echo > out"#;
    let ended = run(&scene, line);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(log_of_step(&scene), 100_000_000);

    let ended = run(&scene, &format!("{line}; echo; echo THE-END; exit 3"));
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("THE-END"), "{}", &ended.stderr[..READABLE.min(ended.stderr.len())]);
    assert!(ended.stderr.len() < READABLE, "{} bytes are shown", ended.stderr.len());
}

#[test]
fn very_heavy_logging_does_not_freeze_the_child_and_nobody_has_to_drain_a_pipe() {
    let scene = Scene::isolated();
    let ended =
        run(&scene, "yes all is well | head -c 300000000; yes and here | head -c 300000000 >&2; echo > out");
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(log_of_step(&scene), 600_000_000);
}

#[test]
fn a_terminal_is_not_at_the_mercy_of_what_a_child_prints() {
    let scene = Scene::isolated();
    let ended = run(&scene, r#"printf "\033[2J\033]0;title\007over\rwritten\n"; exit 3"#);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("written") && !ended.stderr.contains('\u{1b}'), "{:?}", ended.stderr);
}

#[test]
fn workers_of_a_step_that_was_killed_are_gone_when_the_step_is() {
    let scene = Scene::isolated();
    let workers =
        r#"sh -c "trap : TERM; while :; do sleep 1; done" & setsid sleep 300 & sleep 0.2; kill -9 $$"#;
    let ended = run(&scene, workers);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("SIGKILL"), "{}", ended.stderr);
    scene.assert_nothing_runs();
}

#[test]
fn a_daemon_that_holds_the_log_open_keeps_nobody_waiting() {
    let scene = Scene::isolated();
    let ended = run(&scene, "setsid sh -c \"while :; do echo held; sleep 1; done\" & echo > out; exit 3");
    assert_eq!(ended.code, Some(1));
    assert!(ended.took < Duration::from_secs(20), "{:?}", ended.took);
    scene.assert_nothing_runs();
}

#[test]
fn an_end_that_hangs_has_a_limit() {
    let scene = Scene::isolated();
    let hangs = r#"trap "" TERM; (setsid sleep 300 &); echo up; kill -STOP $$; sleep 300"#;
    let running = start(&scene, hangs);
    await_up(&scene);
    signal(running.pid(), Signal::TERM);
    // The grace of three seconds, and room.
    let ended = running.wait_within(Duration::from_secs(20));
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
    scene.assert_nothing_runs();
}

#[test]
fn a_time_limit_holds_for_what_hangs_at_its_end() {
    let scene = Scene::isolated();
    let hangs = r#"trap "" TERM; (setsid sleep 300 &); kill -STOP $$; sleep 300"#;
    let plan = plan(hangs).replace("  step:", "  step:\n    timeout: 1s");
    scene.write("plan.yaml", plan);
    let ended = scene.start(&["apply", "plan.yaml"]).wait_within(Duration::from_secs(20));
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    scene.assert_nothing_runs();
}

#[test]
fn a_step_that_loses_its_supervisor_fails_and_nothing_of_it_is_left() {
    let scene = Scene::isolated();
    let running = start(&scene, "sh -c \"sleep 300; :\" & echo up; wait; echo > out");
    await_up(&scene);
    signal(scene.await_process("__supervise", LONG), Signal::KILL);
    let ended = running.wait_within(LONG);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert!(ended.stderr.contains("supervisor"), "{}", ended.stderr);
    scene.await_nothing_runs();
}

#[test]
fn a_log_that_somebody_follows_holds_up_no_cleanup() {
    let scene = Scene::isolated();
    let running = start(&scene, "echo up; sleep 0.5; echo > out");
    let log = await_log(&scene);
    let mut follower = Command::new("tail").arg("-f").arg(log).stdout(Stdio::null()).spawn().unwrap();
    let ended = running.wait_within(LONG);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(follower.try_wait().unwrap().is_none(), "it is still there");
    follower.kill().unwrap();
    follower.wait().unwrap();
}
