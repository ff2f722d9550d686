//! What was damaged in the store is found by who reads it, made again, and
//! read again, all in one run. The real binary in real processes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "support/double.rs"]
mod double;
#[path = "support/files.rs"]
mod files;
mod support;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use files::{apply, assert_ok, assert_whole, blob, json};
use insta::assert_snapshot;
use support::{Ended, PROJECT, Scene, redacting};

/// Two producers, of which the second can be told to damage what the first
/// left, and a reader of both. Every command notes that it ran.
const PLAN: &str = "\
orchestrate: 1
name: healing
nodes:
  first:
    run:
      command: [sh, -c, 'echo first >> $SIDE/ran; echo one > out']
      outputs: {out: out}
      environment: {SIDE: '${env.SIDE}'}
  second:
    run:
      command: [sh, -c, 'echo second >> $SIDE/ran; if [ -e $SIDE/victim ]; then rm -f $(cat $SIDE/victim); echo bad > $(cat $SIDE/victim); fi; echo two > out']
      outputs: {out: out}
      environment: {SIDE: '${env.SIDE}'}
  reader:
    run:
      command: [sh, -c, 'echo reader >> $SIDE/ran; cat a b > out']
      inputs: {a: '${nodes.first.out}', b: '${nodes.second.out}'}
      outputs: {out: out}
      environment: {SIDE: '${env.SIDE}', TELL: '${params.tell}'}
params:
  tell: one
";

/// A place in which the plan is done.
fn applied() -> Scene {
    let scene = Scene::isolated();
    let side = scene.path("side");
    fs::create_dir(&side).unwrap();
    scene.write("plan.yaml", PLAN);
    let scene = scene.with("SIDE", side);
    assert_ok(&apply(&scene));
    scene.write("side/ran", "");
    scene
}

/// Applies the plan with another setting of the reader, so that it runs.
fn read_again(scene: &Scene) -> Ended {
    scene.run(&["apply", "plan.yaml", "--set", "tell=two"])
}

/// Changes a stored file by hand.
fn damage(scene: &Scene, content: &str, damaged: &str) {
    let path = blob(scene, content);
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    fs::write(path, damaged).unwrap();
}

/// The commands that ran since the plan was done, in their order.
fn ran(scene: &Scene) -> Vec<String> {
    let text = fs::read_to_string(scene.path("side/ran")).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// Attempts and outcomes of a node in the newest run.
fn attempts(scene: &Scene, node: &str) -> Vec<(u32, String)> {
    let records = scene.records().into_iter().filter(|row| row.node == node);
    records.map(|row| (row.attempt, row.outcome)).collect()
}

/// The lines of a run that tell of one word.
fn lines<'a>(ended: &'a Ended, word: &str) -> Vec<&'a str> {
    ended.stderr.lines().filter(|line| line.starts_with(word)).collect()
}

#[test]
fn what_was_changed_by_hand_is_made_again_in_the_run_that_reads_it_and_the_run_says_so() {
    let scene = applied();
    damage(&scene, "one\n", "lie\n");
    let ended = read_again(&scene);
    assert_ok(&ended);
    assert_eq!(ran(&scene), ["first", "reader"]);
    assert_eq!(attempts(&scene, "first"), [(1, "succeeded".to_owned())]);
    assert_eq!(attempts(&scene, "reader"), [(1, "failed".to_owned()), (2, "succeeded".to_owned())]);
    let _redacted = redacting();
    let shown = [lines(&ended, "retried"), lines(&ended, "again"), lines(&ended, "succeeded")].concat();
    assert_snapshot!(shown.join("\n"), @"
    retried     reader [TIME]: [DIGEST] is in the store but damaged; it was moved to [DIR]/store/aside/[DIGEST] and will be made again; first is made again, because its output out was damaged in the store; then reader is tried again
    again       first: its output out was damaged in the store
    succeeded   first [TIME]: made again, because its output out was damaged in the store
    succeeded   reader [TIME]
    ");
    assert_snapshot!(lines(&ended, "nodes").join("\n"), @"nodes       2 succeeded, 1 reused");
    assert_whole(&scene);
}

#[test]
fn a_retry_is_told_by_explain_and_by_the_log() {
    let scene = applied();
    damage(&scene, "two\n", "lie\n");
    assert_ok(&read_again(&scene));
    let explained = scene.run(&["explain", "plan.yaml", "reader", "--set", "tell=two"]);
    assert!(explained.stdout.contains("retried   "), "{}", explained.stdout);
    assert!(explained.stdout.contains("second is made again"), "{}", explained.stdout);
    let explained = scene.run(&["explain", "plan.yaml", "reader", "--set", "tell=two", "--json"]);
    let retried = json(&explained, "explain")["last"]["retried"].as_str().unwrap().to_owned();
    assert!(retried.contains("second is made again"), "{retried}");
    let log = scene.run(&["logs", "reader", "--attempt", "1"]);
    assert!(log.stdout.starts_with("orchestrate: attempt 1 failed: "), "{}", log.stdout);
    let explained = scene.run(&["explain", "plan.yaml", "second"]);
    assert!(!explained.stdout.contains("retried"), "{}", explained.stdout);
}

#[test]
fn what_was_cut_short_is_made_again_in_the_run_that_reads_it() {
    let scene = applied();
    damage(&scene, "two\n", "tw");
    let ended = read_again(&scene);
    assert_ok(&ended);
    assert_eq!(ran(&scene), ["second", "reader"]);
    assert_eq!(attempts(&scene, "reader"), [(1, "failed".to_owned()), (2, "succeeded".to_owned())]);
    assert_whole(&scene);
}

#[test]
fn several_damaged_inputs_are_made_again_one_after_the_other() {
    let scene = applied();
    damage(&scene, "one\n", "lie\n");
    damage(&scene, "two\n", "lie\n");
    let ended = read_again(&scene);
    assert_ok(&ended);
    assert_eq!(ran(&scene), ["first", "second", "reader"]);
    assert_eq!(attempts(&scene, "reader").len(), 3);
    assert_whole(&scene);
}

#[test]
fn what_was_removed_is_missed_before_anything_reads_it_so_that_one_attempt_is_enough() {
    let scene = applied();
    fs::remove_file(blob(&scene, "one\n")).unwrap();
    let ended = read_again(&scene);
    assert_ok(&ended);
    assert_eq!(ran(&scene), ["first", "reader"]);
    assert_eq!(attempts(&scene, "reader"), [(1, "succeeded".to_owned())]);
}

#[test]
fn what_is_damaged_again_after_it_was_made_again_fails_its_reader_and_the_run_ends() {
    let scene = applied();
    damage(&scene, "one\n", "lie\n");
    damage(&scene, "two\n", "lie\n");
    scene.write("side/victim", blob(&scene, "one\n").display().to_string());
    let ended = read_again(&scene);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert_eq!(ran(&scene), ["first", "second"]);
    let failed = || "failed".to_owned();
    assert_eq!(attempts(&scene, "reader"), [(1, failed()), (2, failed()), (3, failed())]);
    assert!(ended.failures().contains("damaged"), "{}", ended.stderr);
    fs::remove_file(scene.path("side/victim")).unwrap();
    assert_ok(&read_again(&scene));
    assert_whole(&scene);
}

#[test]
fn a_reader_that_fails_by_itself_is_not_tried_again() {
    let scene = applied();
    scene.write("plan.yaml", PLAN.replace("cat a b > out", "exit 7"));
    damage(&scene, "one\n", "lie\n");
    let ended = read_again(&scene);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert_eq!(ran(&scene), ["first", "reader"]);
    assert_eq!(attempts(&scene, "reader").len(), 2);
    let ended = read_again(&scene);
    assert_eq!((ended.code, attempts(&scene, "reader").len()), (Some(1), 1), "{}", ended.stderr);
}

#[test]
fn a_server_whose_bundle_was_damaged_starts_after_the_bundle_is_made_again() {
    let scene = Scene::isolated();
    double::write_plan(&scene, "good", "");
    assert_ok(&apply(&scene));
    let model = blob(&scene, double::model());
    fs::set_permissions(&model, Permissions::from_mode(0o644)).unwrap();
    fs::write(model, "lie").unwrap();
    let ended = scene.run(&["apply", "plan.yaml", "--remeasure"]);
    assert_ok(&ended);
    let _redacted = redacting();
    let shown = ended.stderr.lines().skip_while(|line| !line.starts_with("retried"));
    let shown: Vec<&str> = shown.take_while(|line| !line.starts_with("run ")).collect();
    assert_snapshot!(shown.join("\n"), @"
    retried     warmup [TIME]: server could not be used: [DIGEST] is in the store but damaged; it was moved to [DIR]/store/aside/[DIGEST] and will be made again; bundle is made again, because its output model was damaged in the store; model is made again, because its output file was damaged in the store; then warmup is tried again
    again       bundle: its output model was damaged in the store
    again       model: its output file was damaged in the store
    started     model (fetch)
    doing       model: trying the file tiny.gguf
    succeeded   model [TIME]: made again, because its output file was damaged in the store
    started     bundle (build_bundle)
    succeeded   bundle [TIME]: made again, because its output model was damaged in the store
    started     warmup (warmup)
    doing       server: starting
    doing       warmup: request 1 of 2
    succeeded   warmup [TIME]: measurement 2 under this key; all are kept
    succeeded   server [TIME]: stopped after [TIME]; processes gone, port free
    nodes       4 succeeded
    ");
    assert_eq!(attempts(&scene, "server"), [(1, "succeeded".to_owned())]);
    assert_eq!(attempts(&scene, "warmup"), [(1, "failed".to_owned()), (2, "succeeded".to_owned())]);
    scene.assert_nothing_runs();
    assert_whole(&scene);
}

/// A producer that leaves the word of the day, and two readers of it.
const WORD: &str = "\
orchestrate: 1
name: word
nodes:
  word:
    run:
      command: [sh, -c, 'cat $SIDE/word > out']
      outputs: {out: out}
      environment: {SIDE: '${env.SIDE}'}
  other:
    run:
      command: [sh, -c, 'cat word > out']
      inputs: {word: '${nodes.word.out}'}
      outputs: {out: out}
  after:
    run:
      command: [sh, -c, 'cat word > out; echo after >> out']
      inputs: {word: '${nodes.other.out}'}
      outputs: {out: out}
  reader:
    run:
      command: [sh, -c, 'cat word > out']
      inputs: {word: '${nodes.word.out}'}
      outputs: {out: out}
      environment: {TELL: '${params.tell}'}
params:
  tell: one
";

#[test]
fn who_was_reused_by_what_was_damaged_is_looked_at_again_where_that_is_made_otherwise() {
    let scene = Scene::isolated();
    let side = scene.path("side");
    let scene = scene.with("SIDE", side);
    scene.write("side/word", "monday\n");
    scene.write("plan.yaml", WORD);
    assert_ok(&apply(&scene));
    scene.write("side/word", "tuesday\n");
    damage(&scene, "monday\n", "lie\n");
    let ended = read_again(&scene);
    assert_ok(&ended);
    assert_eq!(ended.nodes("again"), ["after", "other", "word"], "{}", ended.stderr);
    assert_eq!(lines(&ended, "nodes"), ["nodes       4 succeeded"]);
    let ended = read_again(&scene);
    assert_eq!(lines(&ended, "nodes"), ["nodes       4 reused"], "{}", ended.stderr);
}

/// A server on a bundle that is built, a node that can be told to damage the
/// bundle while the server runs, and a reader of the bundle after that.
fn write_server_plan(scene: &Scene) {
    double::write_plan(scene, "good", "");
    let text = fs::read_to_string(scene.path("plan.yaml")).unwrap();
    let dir = scene.path("").display().to_string();
    let build = format!("      build: {{command: [sh, -c, 'cp {dir}tiny.gguf out'], output: out}}\n");
    let text = text.replace("      model: ${nodes.model}\n", &build);
    let (head, nodes) = text.split_once("  model:\n").unwrap();
    let (_, nodes) = nodes.split_once("  bundle:\n").unwrap();
    let more = "
  vandal:
    run:
      command: [sh, -c, 'if [ -e $SIDE/victim ]; then rm -f $(cat $SIDE/victim); echo bad > $(cat $SIDE/victim); fi; date +%N > out']
      outputs: {out: out}
      environment: {SIDE: '${env.SIDE}', URL: '${nodes.server.url}'}
      reuse: measurement
    needs: [warmup]
  reader:
    run:
      command: [sh, -c, 'wc -c < model > out']
      inputs: {model: '${nodes.bundle.model}'}
      outputs: {out: out}
      environment: {TELL: '${params.tell}'}
    needs: [vandal]
  later:
    warmup: {server: '${nodes.server}', requests: 1}
    needs: [reader]
params:
  tell: one
";
    scene.write("plan.yaml", format!("{head}  bundle:\n{nodes}{more}"));
}

#[test]
fn a_server_is_never_taken_to_run_on_what_was_made_otherwise_while_it_ran() {
    let scene = Scene::isolated();
    let side = scene.path("side");
    fs::create_dir(&side).unwrap();
    let scene = scene.with("SIDE", side);
    write_server_plan(&scene);
    assert_ok(&apply(&scene));
    let model = double::model();
    scene.write("side/victim", blob(&scene, &model).display().to_string());
    let mut other = model;
    *other.last_mut().unwrap() ^= 1;
    scene.write("tiny.gguf", other);
    let remeasure = ["apply", "plan.yaml", "--remeasure", "--set", "tell=two"];
    let ended = scene.run(&remeasure);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    let _redacted = redacting();
    assert_snapshot!(ended.failures(), @"failed      bundle [TIME]: it was made again and left other content than before, while server runs on what was before; run the same command again");
    assert_eq!(attempts(&scene, "reader")[0], (1, "failed".to_owned()));
    scene.assert_nothing_runs();
    fs::remove_file(scene.path("side/victim")).unwrap();
    let ended = scene.run(&remeasure);
    assert_ok(&ended);
    assert_eq!(ended.nodes("reused"), ["bundle"], "{}", ended.stderr);
    scene.assert_nothing_runs();
}
