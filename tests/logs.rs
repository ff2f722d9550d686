//! `orchestrate logs`: what a node wrote, whatever it is, while it is being
//! written and afterwards.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "support/small.rs"]
mod small;
mod support;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use small::{LONG, applied, at_work, beside, log_of_slow, scene};
use support::{Running, Scene, wait_for};

/// The log of a node of the newest run.
fn log_of(scene: &Scene, node: &str) -> PathBuf {
    let run = scene.state().latest_run(None).unwrap().unwrap();
    scene.path(&format!(".orchestrate/runs/{run}/{node}/log"))
}

fn shown(scene: &Scene, arguments: &[&str]) -> String {
    let ended = scene.run(&[&["logs"][..], arguments].concat());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    ended.stdout
}

fn stdout_of(scene: &Scene) -> String {
    fs::read_to_string(scene.path("stdout")).unwrap_or_default()
}

fn await_stdout(scene: &Scene, text: &str) {
    wait_for(&format!("{text:?}"), LONG, || (stdout_of(scene) == text).then_some(()));
}

/// A run whose slow step is at work, and another place that follows its log.
fn followed(scene: &Scene) -> (Running, Scene, Running) {
    let run = at_work(scene);
    let other = beside(scene);
    let following = other.start(&["logs", "slow", "--follow"]);
    await_stdout(&other, "waiting\n");
    (run, other, following)
}

fn append(scene: &Scene, text: &str) {
    let log = File::options().append(true).open(log_of_slow(scene).unwrap());
    log.unwrap().write_all(text.as_bytes()).unwrap();
}

#[test]
fn following_shows_lines_as_they_come_and_ends_with_the_node() {
    let scene = scene();
    let (run, other, following) = followed(&scene);
    append(&scene, "half a");
    await_stdout(&other, "waiting\nhalf a");
    append(&scene, " line\n");
    await_stdout(&other, "waiting\nhalf a line\n");
    scene.write("go", "");
    assert_eq!(run.wait_within(LONG).code, Some(0));
    let ended = following.wait_within(LONG);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "waiting\nhalf a line\n"), "{}", ended.stderr);
    scene.assert_nothing_runs();
}

#[test]
fn following_survives_a_log_that_is_cut() {
    let scene = scene();
    let (run, other, following) = followed(&scene);
    fs::write(log_of_slow(&scene).unwrap(), "new\n").unwrap();
    await_stdout(&other, "waiting\nnew\n");
    scene.write("go", "");
    run.wait_within(LONG);
    assert!(following.wait_within(LONG).stderr.contains("the log was cut; it goes on from its beginning"));
}

#[test]
fn following_goes_on_with_the_next_attempt() {
    let scene = scene();
    let (run, other, following) = followed(&scene);
    fs::write(log_of_slow(&scene).unwrap().with_file_name("log.2"), "again\n").unwrap();
    await_stdout(&other, "waiting\nagain\n");
    scene.write("go", "");
    run.wait_within(LONG);
    let ended = following.wait_within(LONG);
    assert!(ended.stderr.contains("attempt 2"), "{}", ended.stderr);
    assert_eq!(shown(&scene, &["slow"]), "again\n");
    assert_eq!(shown(&scene, &["slow", "--attempt", "1"]), "waiting\n");
}

#[test]
fn following_a_node_that_has_not_begun_waits_for_it() {
    let scene = scene();
    let run = at_work(&scene);
    let other = beside(&scene);
    let following = other.start(&["logs", "later", "--follow"]);
    wait_for("a word", LONG, || following.stderr().contains("waiting for later in run ").then_some(()));
    let dir = log_of_slow(&scene).unwrap().parent().unwrap().with_file_name("later");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("log"), "begun\n").unwrap();
    await_stdout(&other, "begun\n");
    scene.write("go", "");
    run.wait_within(LONG);
    assert_eq!(following.wait_within(LONG).code, Some(0));
}

#[test]
fn an_interrupt_ends_following_with_130_and_leaves_the_run_alone() {
    let scene = scene();
    let (run, _other, following) = followed(&scene);
    let pid = rustix::process::Pid::from_raw(i32::try_from(following.pid()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(following.wait_within(LONG).code, Some(130));
    scene.write("go", "");
    assert_eq!(run.wait_within(LONG).code, Some(0));
}

#[test]
fn following_what_has_ended_prints_it_and_ends() {
    let scene = applied();
    assert_eq!(shown(&scene, &["slow", "--follow"]), "waiting\n");
    assert_eq!(shown(&scene, &["slow", "-f", "--lines", "0"]), "");
}

#[test]
fn the_last_lines_of_two_gibibytes_are_there_at_once() {
    let scene = applied();
    let log = File::options().write(true).open(log_of(&scene, "slow")).unwrap();
    log.set_len(2 << 30).unwrap();
    let mut log = File::options().append(true).open(log_of(&scene, "slow")).unwrap();
    log.write_all(b"\nlast but one\nlast\n").unwrap();
    assert_eq!(shown(&scene, &["slow", "--lines", "2"]), "last but one\nlast\n");
}

#[test]
fn bytes_that_are_no_text_pass_as_they_are() {
    let scene = applied();
    let noise: Vec<u8> = (0..100_000_u32).map(|i| u8::try_from(i * 7 % 256).unwrap()).collect();
    fs::write(log_of(&scene, "slow"), &noise).unwrap();
    scene.run(&["logs", "slow"]);
    assert!(fs::read(scene.path("stdout")).unwrap() == noise);
}

#[test]
fn secrets_of_the_environment_are_masked_in_logs_and_in_errors() {
    let scene = Scene::isolated().with("HF_TOKEN", "hf_hunter2hunter2");
    let scene = scene.with("HTTPS_PROXY", "http://alice:s3cret-word@127.0.0.1:9");
    let plan = "orchestrate: 1\nname: p\nnodes:\n  told:\n    run:\n      command: [sh, -c, 'echo hf_hunter2hunter2; \
                echo $HTTPS_PROXY; exit 3']\n";
    scene.write("plan.yaml", plan);
    let ended = scene.run(&["apply", "plan.yaml"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let written = fs::read_to_string(log_of(&scene, "told")).unwrap();
    assert!(written.contains("s3cret-word"), "{written}");
    assert!(!ended.stderr.contains("s3cret") && ended.stderr.contains("alice:***@"), "{}", ended.stderr);
    let log = shown(&scene, &["told"]);
    assert_eq!(log, "***\nhttp://alice:***@127.0.0.1:9\n");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let scene = applied();
    fs::write(log_of(&scene, "slow"), "line\n".repeat(1_000_000)).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_orchestrate"))
        .args(["logs", "slow"])
        .current_dir(scene.path(""))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut some = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut some).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn an_attempt_that_left_no_log_is_answered_with_those_that_did() {
    let scene = applied();
    let ended = scene.run(&["logs", "slow", "--attempt", "3"]);
    assert_eq!(ended.code, Some(2));
    let run = scene.state().latest_run(None).unwrap().unwrap();
    let says = format!("error: slow left no log of attempt 3 in run {run}; those it left are of 1\n");
    assert_eq!(ended.stderr, says);
}
