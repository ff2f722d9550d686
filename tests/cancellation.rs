//! A run that somebody ends: by a signal, twice, by closing the terminal; and
//! one that nobody listens to any more. The real binary in real processes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use support::{Ended, PROGRAM, Running, Scene, signal, wait_for};

/// More than any of these runs takes on a busy machine.
const LONG: Duration = Duration::from_secs(20);
/// What a program gets between TERM and KILL.
const GRACE: Duration = Duration::from_secs(3);

/// A step that ends, one that works for ever, and one after it.
fn plan(work: &str) -> Scene {
    let scene = Scene::isolated();
    scene.write(
        "plan.yaml",
        format!(
            "\
orchestrate: 1
name: cancelled
nodes:
  first:
    run: {{command: [sh, -c, 'echo first > out'], outputs: {{out: out}}}}
  work:
    run:
      command: [sh, -c, '{work}']
      inputs: {{in: '${{nodes.first.out}}'}}
      outputs: {{out: out}}
  last:
    run: {{command: [cp, in, out], inputs: {{in: '${{nodes.work.out}}'}}, outputs: {{out: out}}}}
"
        ),
    );
    scene
}

/// Ends by itself when it is asked to.
const POLITE: &str = "trap \"echo asked; exit 1\" TERM; echo working; while :; do sleep 0.05; done";
/// Is deaf to TERM, and so is what it started.
const DEAF: &str = "trap \"\" TERM; (sleep 300; :) & echo working; while :; do sleep 0.05; done";

fn at_work(scene: &Scene) -> Running {
    let running = scene.start(&["apply", "plan.yaml"]);
    await_work(scene);
    running
}

fn await_work(scene: &Scene) {
    wait_for("the work", LONG, || log(scene).contains("working").then_some(()));
}

fn log(scene: &Scene) -> String {
    let logs = support::files_below(&scene.path(".orchestrate")).into_iter();
    logs.filter(|path| path.ends_with("work/log"))
        .filter_map(|path| std::fs::read_to_string(path).ok())
        .collect()
}

/// The run was ended in order: recorded as such, nothing half done, nothing
/// left, and the next one goes on from there.
fn assert_in_order(scene: &Scene, code: Option<i32>) {
    assert_eq!(code, Some(130));
    assert_ended_well(scene);
}

fn assert_ended_well(scene: &Scene) {
    scene.assert_clean(&["run"]);
    let rows = scene.records().into_iter();
    let mut rows: Vec<_> = rows.map(|row| (row.node, row.outcome)).collect();
    rows.sort();
    let expected = [("first", "succeeded"), ("last", "cancelled"), ("work", "cancelled")];
    assert_eq!(rows, expected.map(|(node, outcome)| (node.to_owned(), outcome.to_owned())));
    let status = scene.run(&["status"]);
    assert!(!status.stdout.contains("running"), "{}", status.stdout);
    scene.write(
        "plan.yaml",
        std::fs::read_to_string(scene.path("plan.yaml"))
            .unwrap()
            .replace("while :; do sleep 0.05; done", "cat in > out"),
    );
    let again = scene.run(&["apply", "plan.yaml"]);
    assert_eq!(again.code, Some(0), "{}", again.stderr);
    assert_eq!(again.nodes("reused"), ["first"], "{}", again.stderr);
}

#[test]
fn a_signal_ends_a_run_in_order() {
    for kind in [Signal::INT, Signal::TERM, Signal::HUP] {
        let scene = plan(POLITE);
        let running = at_work(&scene);
        signal(running.pid(), kind);
        let Ended { code, stderr, .. } = running.wait_within(LONG);
        assert!(log(&scene).contains("asked"), "{kind:?}: {stderr}");
        assert_in_order(&scene, code);
    }
}

#[test]
fn what_is_deaf_is_killed_after_its_grace() {
    let scene = plan(DEAF);
    let running = at_work(&scene);
    let asked = Instant::now();
    signal(running.pid(), Signal::INT);
    let ended = running.wait_within(LONG);
    assert!(asked.elapsed() >= GRACE, "it had {:?}", asked.elapsed());
    assert_in_order(&scene, ended.code);
}

#[test]
fn a_second_signal_skips_the_grace_and_the_end_is_still_recorded() {
    let scene = plan(DEAF);
    let running = at_work(&scene);
    let asked = Instant::now();
    signal(running.pid(), Signal::INT);
    wait_for("the first to be heard", LONG, || running.stderr().contains("stopping").then_some(()));
    signal(running.pid(), Signal::INT);
    let ended = running.wait_within(LONG);
    assert!(asked.elapsed() < GRACE, "it took {:?}", asked.elapsed());
    assert_in_order(&scene, ended.code);
}

#[test]
fn a_closed_terminal_ends_a_run_in_order() {
    let scene = plan(POLITE);
    let command = format!("{PROGRAM} apply plan.yaml");
    let mut terminal = scene
        .command("script")
        .args(["-qec", &command, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    await_work(&scene);
    // The pseudo-terminal is gone with who holds its other end.
    terminal.kill().unwrap();
    terminal.wait().unwrap();
    wait_for("the end of the run", LONG, || scene.processes().is_empty().then_some(()));
    assert_ended_well(&scene);
}

#[test]
fn a_run_that_nobody_listens_to_any_more_goes_on_to_its_end() {
    let scene = plan("echo working; sleep 0.5; cat in > out");
    let mut run: Command = scene.command(PROGRAM);
    let mut run =
        run.args(["apply", "plan.yaml"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    await_work(&scene);
    drop((run.stdout.take(), run.stderr.take()));
    assert_eq!(run.wait().unwrap().code(), Some(0));
    let outcomes = scene.records().into_iter().map(|row| row.outcome);
    assert_eq!(outcomes.collect::<Vec<_>>(), ["succeeded"; 3]);
}

#[test]
fn a_command_whose_reader_has_gone_ends_in_silence() {
    let scene = plan("cat in > out");
    assert_eq!(scene.run(&["apply", "plan.yaml"]).code, Some(0));
    for arguments in [
        &["status"][..],
        &["status", "--json"],
        &["plan", "plan.yaml"],
        &["plan", "plan.yaml", "--json"],
        &["explain", "plan.yaml", "work"],
        &["graph", "plan.yaml"],
        &["validate", "plan.yaml"],
        &["store", "stats"],
        &["store", "verify"],
        &["gc", "--dry-run"],
        &["logs", "work"],
    ] {
        let mut command = scene.command(PROGRAM);
        let mut child =
            command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let mut stderr = String::new();
        child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        let code = child.wait().unwrap().code();
        assert!(!stderr.contains("panicked"), "{arguments:?}: {stderr}");
        // `logs` of a node that said nothing has no log.
        assert!(code == Some(0) || arguments[0] == "logs", "{arguments:?} exits {code:?}: {stderr}");
    }
}
