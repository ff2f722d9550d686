//! What a run does when it is told to stop, or when nobody listens to it any
//! more: the real binary and real signals.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use support::{PROGRAM, Running, Scene, files_below, signal, wait_for};

/// More than any of these runs takes on a busy machine.
const LONG: Duration = Duration::from_secs(30);
/// How long children get between TERM and KILL.
const GRACE: Duration = Duration::from_secs(3);

/// A step that ends at once, one that does not listen when it is told to stop,
/// one that does and takes its time, and one that comes after them.
const PLAN: &str = "\
orchestrate: 1
name: stop
nodes:
  quick:
    run:
      command: [sh, -c, 'echo quick > out']
      outputs: {out: out}
  deaf:
    run:
      command: [sh, -c, 'trap \"\" TERM INT HUP; cat in; echo up; until [ -e \"$GO\" ]; do sleep 0.02; done; cat in > out']
      inputs: {in: '${nodes.quick.out}'}
      outputs: {out: out}
      environment: {GO: '${env.GO}'}
  tidy:
    run:
      command: [sh, -c, 'trap \"trap '''' TERM; sleep 0.5; echo tidied; exit 0\" TERM; cat in; echo up; until [ -e \"$GO\" ]; do sleep 0.02; done; cat in > out']
      inputs: {in: '${nodes.quick.out}'}
      outputs: {out: out}
      environment: {GO: '${env.GO}'}
  after:
    run:
      command: [sh, -c, 'cat a b > out']
      inputs: {a: '${nodes.deaf.out}', b: '${nodes.tidy.out}'}
      outputs: {out: out}
";
const APPLY: [&str; 4] = ["apply", "plan.yaml", "--jobs", "2"];

fn scene() -> Scene {
    let scene = Scene::isolated();
    scene.write("plan.yaml", PLAN);
    let go = scene.path("go");
    scene.with("GO", go)
}

/// A run whose two long steps are at work.
fn at_work(scene: &Scene) -> Running {
    let running = scene.start(&APPLY);
    await_work(scene);
    running
}

fn await_work(scene: &Scene) {
    for node in ["deaf", "tidy"] {
        wait_for(node, LONG, || log_of(scene, node).contains("up").then_some(()));
    }
}

fn log_of(scene: &Scene, node: &str) -> String {
    let logs = files_below(&scene.path(".orchestrate/runs"));
    let log = logs.into_iter().find(|path| path.ends_with(format!("{node}/log")));
    log.and_then(|log| fs::read_to_string(log).ok()).unwrap_or_default()
}

/// The journal tells what was stopped, nothing runs, and the next run goes on
/// from there.
fn assert_stopped_in_order(scene: &Scene) {
    wait_for("the end of every process", LONG, || scene.processes().is_empty().then_some(()));
    let outcomes: Vec<_> = scene.records().into_iter().map(|row| (row.node, row.outcome)).collect();
    for (node, outcome) in
        [("quick", "succeeded"), ("deaf", "cancelled"), ("tidy", "cancelled"), ("after", "cancelled")]
    {
        assert!(outcomes.contains(&(node.to_owned(), outcome.to_owned())), "{node}: {outcomes:?}");
    }
    assert_eq!(scene.state().unfinished_runs().unwrap().len(), 0);
    assert_eq!(scene.state().leases().unwrap().len(), 0);
    scene.write("go", "");
    let next = scene.run(&APPLY);
    assert_eq!(next.code, Some(0), "{}", next.stderr);
    assert_eq!(next.nodes("reused"), ["quick"]);
}

#[test]
fn told_once_by_any_signal_a_run_ends_in_order_and_leaves_its_children_their_grace() {
    std::thread::scope(|threads| {
        for word in [Signal::INT, Signal::TERM, Signal::HUP] {
            threads.spawn(move || {
                let scene = scene();
                let running = at_work(&scene);
                let told = Instant::now();
                signal(running.pid(), word);
                let ended = running.wait_within(LONG);
                assert_eq!(ended.code, Some(130), "{word:?}: {}", ended.stderr);
                assert!(told.elapsed() >= GRACE, "{:?}", told.elapsed());
                assert!(log_of(&scene, "tidy").contains("tidied"));
                assert_stopped_in_order(&scene);
            });
        }
    });
}

#[test]
fn told_twice_a_run_ends_in_order_and_at_once() {
    for (first, second) in
        [(Signal::INT, Signal::INT), (Signal::TERM, Signal::INT), (Signal::HUP, Signal::TERM)]
    {
        let scene = scene();
        let running = at_work(&scene);
        signal(running.pid(), first);
        // The second would be lost in the first while that is not yet taken.
        std::thread::sleep(Duration::from_millis(100));
        let told = Instant::now();
        signal(running.pid(), second);
        let ended = running.wait_within(LONG);
        assert!(told.elapsed() < Duration::from_secs(2), "{:?}", told.elapsed());
        assert_eq!(ended.code, Some(130), "{}", ended.stderr);
        scene.assert_nothing_runs();
        assert!(!log_of(&scene, "tidy").contains("tidied"), "its grace was skipped");
        assert_stopped_in_order(&scene);
    }
}

#[test]
fn a_terminal_that_hangs_up_more_than_once_has_said_one_word() {
    let scene = scene();
    let running = at_work(&scene);
    for _ in 0..3 {
        signal(running.pid(), Signal::HUP);
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(running.wait_within(LONG).code, Some(130));
    assert!(log_of(&scene, "tidy").contains("tidied"));
}

#[test]
fn told_three_times_the_program_is_gone_and_the_next_run_sets_it_right() {
    let scene = scene();
    let running = at_work(&scene);
    let told = Instant::now();
    while running.is_running() && told.elapsed() < LONG {
        signal(running.pid(), Signal::INT);
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(running.wait().code, Some(130));
    wait_for("the end of every process", LONG, || scene.processes().is_empty().then_some(()));
    scene.write("go", "");
    let next = scene.run(&APPLY);
    assert_eq!(next.code, Some(0), "{}", next.stderr);
    assert!(scene.state().unfinished_runs().unwrap().is_empty());
}

#[test]
fn a_run_whose_terminal_is_closed_ends_in_order() {
    let scene = scene();
    let mut terminal = in_a_terminal(&scene);
    await_work(&scene);
    terminal.kill().unwrap();
    terminal.wait().unwrap();
    assert_stopped_in_order(&scene);
}

/// A run in a terminal of its own, which closes when this process ends.
fn in_a_terminal(scene: &Scene) -> Child {
    let line = format!("exec {PROGRAM} {}", APPLY.join(" "));
    let mut terminal = scene.command("script");
    terminal.args(["-qefc", &line, "/dev/null"]).env("TERM", "xterm").stdout(Stdio::null());
    terminal.spawn().unwrap()
}

#[test]
fn a_run_whose_output_is_lost_goes_on_and_its_state_has_everything() {
    let scene = scene();
    let mut command = scene.command(PROGRAM);
    let mut running = command.args(APPLY).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(running.stdout.take());
    let mut said = BufReader::new(running.stderr.take().unwrap());
    said.read_line(&mut String::new()).unwrap();
    drop(said);
    await_work(&scene);
    scene.write("go", "");
    assert_eq!(wait_for("the end of the run", LONG, || running.try_wait().unwrap()).code(), Some(0));
    let outcomes: Vec<_> = scene.records().into_iter().map(|row| row.outcome).collect();
    assert_eq!(outcomes, ["succeeded"; 4]);
    scene.assert_nothing_runs();
}

#[test]
fn a_reader_that_leaves_early_is_no_error_of_any_command() {
    let scene = scene();
    for arguments in [
        "plan plan.yaml",
        "graph plan.yaml",
        "explain plan.yaml after",
        "validate plan.yaml",
        "store stats",
        "status",
    ] {
        let mut command = scene.command("sh");
        // By the time that it prints, nobody is there to read.
        let line = format!("sleep 0.2; exec {PROGRAM} {arguments}");
        let mut child =
            command.args(["-c", &line]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!((child.wait().unwrap().code(), said.as_str()), (Some(0), ""), "{arguments}");
    }
}

#[test]
fn facts_that_find_no_room_on_the_disk_are_an_error() {
    let scene = scene();
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = scene.command(PROGRAM).args(["plan", "plan.yaml", "--json"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("error: standard output cannot be written: No space left"), "{said}");
}

#[test]
fn an_error_that_nobody_reads_still_shows_in_the_exit_code() {
    let scene = scene();
    scene.write("bad.yaml", "orchestrate: 1\nname: bad\nnodes: {a: {}}\n");
    for arguments in [["plan", "bad.yaml"], ["plan", "none.yaml"], ["logs", "deaf"]] {
        let mut child = scene.command(PROGRAM).args(arguments).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stderr.take());
        assert_eq!(child.wait().unwrap().code(), Some(2), "{arguments:?}");
    }
}
