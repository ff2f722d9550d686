//! Nodes that run any command: what they are given, what they leave, and what
//! is refused.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs;

use insta::assert_snapshot;
use support::{Scene, redacting};

/// A scene with a plan of these nodes.
fn plan(nodes: &str) -> Scene {
    let scene = Scene::isolated();
    scene.write("plan.yaml", format!("orchestrate: 1\nname: commands\nnodes:\n{nodes}"));
    scene
}

const CHAIN: &str = "
  upper:
    run:
      command: [sh, -c, 'tr a-z A-Z < in.txt > made/out.txt; echo ran >> $COUNT']
      inputs: {in.txt: words.txt}
      outputs: {text: made/out.txt}
      environment: {COUNT: '${params.count}'}
  sizes:
    run:
      command: [sh, -c, 'mkdir all; wc -c < ${nodes.upper.text} > all/upper; wc -c < more/a > all/more']
      inputs: {more: folder}
      outputs: {sizes: all}
";

fn chain() -> Scene {
    let scene = Scene::isolated();
    let count = scene.path("count");
    let head = format!("orchestrate: 1\nname: commands\nparams: {{count: {}}}\nnodes:", count.display());
    scene.write("plan.yaml", head + CHAIN);
    scene.write("words.txt", "some words");
    scene.write("folder/a", "more");
    scene
}

#[test]
fn a_command_reads_its_inputs_and_its_outputs_reach_the_next() {
    let scene = chain();
    let ended = scene.run(&["apply", "plan.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(ended.nodes("succeeded"), ["sizes", "upper"]);
    let again = scene.run(&["apply", "plan.yaml"]);
    assert_eq!(again.nodes("reused"), ["sizes", "upper"]);
    assert_eq!(fs::read_to_string(scene.path("count")).unwrap(), "ran\n");
}

#[test]
fn a_command_runs_again_when_a_file_of_its_input_directory_changes() {
    let scene = chain();
    let first = scene.run(&["apply", "plan.yaml"]);
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    scene.write("folder/a", "other");
    let ended = scene.run(&["apply", "plan.yaml"]);
    assert_eq!((ended.nodes("succeeded"), ended.nodes("reused")), (vec!["sizes"], vec!["upper"]));
}

#[test]
fn a_command_runs_again_only_for_the_outputs_that_it_reads() {
    let scene = plan(
        "  parts:
    run:
      command: [sh, -c, 'head -c 1 in > first; tail -c 1 in > last']
      inputs: {in: words.txt}
      outputs: {first: first, last: last}
  reader:
    run: {command: [cp, in, out], inputs: {in: '${nodes.parts.first}'}, outputs: {copy: out}}
  namer:
    run: {command: [cp, '${nodes.parts.last}', out], outputs: {copy: out}}
",
    );
    scene.write("words.txt", "ab");
    let first = scene.run(&["apply", "plan.yaml"]);
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    scene.write("words.txt", "ac");
    let ended = scene.run(&["apply", "plan.yaml"]);
    assert_eq!((ended.nodes("succeeded"), ended.nodes("reused")), (vec!["namer", "parts"], vec!["reader"]));
}

#[test]
fn an_input_that_changes_while_it_is_read_gives_no_result() {
    let scene = Scene::isolated();
    scene.write("words.txt", "some words");
    let words = scene.path("words.txt");
    scene.write(
        "plan.yaml",
        format!(
            "orchestrate: 1\nname: commands\nnodes:\n  a:\n    run:\n      command: [sh, -c, 'cat in > out; \
             echo x >> {}']\n      inputs: {{in: words.txt}}\n      outputs: {{o: out}}\n",
            words.display()
        ),
    );
    let _redacted = redacting();
    let ended = scene.run(&["apply", "plan.yaml"]);
    assert_eq!(ended.code, Some(1));
    assert_snapshot!(ended.failures(), @"failed      a [TIME]: what it reads changed while it ran; run it again, and change nothing meanwhile");
}

#[test]
fn outputs_that_are_missing_or_empty_are_failures_and_never_reused() {
    let _redacted = redacting();
    for (command, said) in [
        ("true", "left no out"),
        ("touch out", "is empty"),
        ("mkdir out", "is an empty directory"),
        ("ln -s /etc/hostname out", "neither a file nor a directory"),
        ("echo half > out; exit 3", "exited with 3"),
    ] {
        let scene =
            plan(&format!("  a:\n    run: {{command: [sh, -c, '{command}'], outputs: {{o: out}}}}\n"));
        for _ in 0..2 {
            let ended = scene.run(&["apply", "plan.yaml"]);
            assert_eq!(ended.code, Some(1), "{command}: {}", ended.stderr);
            assert!(ended.failures().contains(said), "{command}: {}", ended.failures());
        }
    }
}

#[test]
fn what_cannot_be_a_command_is_said_before_anything_runs() {
    let _redacted = redacting();
    let scene = plan(
        "  a:
    run:
      command: []
      inputs: {/etc/passwd: words.txt}
      outputs: {o: ../out}
  b:
    run: {command: ['true'], inputs: {x: '${nodes.a.oo}'}}
",
    );
    let ended = scene.run(&["validate", "plan.yaml"]);
    assert_eq!(ended.code, Some(2));
    assert_snapshot!(ended.stderr, @"
     × the node `a` has no output `oo`; it is a run node
       ╭─[plan.yaml:10:42]
     9 │   b:
    10 │     run: {command: ['true'], inputs: {x: '${nodes.a.oo}'}}
       ·                                          ───────────────
       ╰────
     help: did you mean `${nodes.a.o}`?
    ");
}

#[test]
fn every_path_of_a_command_stays_inside_its_directory() {
    let _redacted = redacting();
    let scene = plan(
        "  a:
    run:
      command: []
      inputs: {/etc/passwd: words.txt}
      outputs: {o: ../out}
",
    );
    let ended = scene.run(&["validate", "plan.yaml"]);
    assert_eq!(ended.code, Some(2));
    assert_snapshot!(ended.stderr, @r#"
     × the command has no program
      ╭─[plan.yaml:6:16]
    5 │     run:
    6 │       command: []
      ·                ──
    7 │       inputs: {/etc/passwd: words.txt}
      ╰────
     help: write [PROGRAM, ARGUMENT, …]
     × "/etc/passwd" is no path inside the command's directory
      ╭─[plan.yaml:7:29]
    6 │       command: []
    7 │       inputs: {/etc/passwd: words.txt}
      ·                             ─────────
    8 │       outputs: {o: ../out}
      ╰────
     help: write a relative path without `..`
     × "../out" is no path inside the command's directory
      ╭─[plan.yaml:8:20]
    7 │       inputs: {/etc/passwd: words.txt}
    8 │       outputs: {o: ../out}
      ·                    ──────
      ╰────
     help: write a relative path without `..`
    "#);
}

/// A plan that measures, with another setting of the node.
fn measuring(more: &str) -> Scene {
    plan(&format!(
        "  load:\n    run: {{command: [sh, -c, 'date +%N > time'], outputs: {{time: time}}, reuse: \
         measurement}}\n{more}"
    ))
}

#[test]
fn every_measurement_is_kept_and_numbered_and_the_newest_is_reused() {
    let _redacted = redacting();
    let scene = measuring("");
    assert_eq!(scene.run(&["apply", "plan.yaml"]).nodes("succeeded"), ["load"]);
    assert_eq!(scene.run(&["apply", "plan.yaml"]).nodes("reused"), ["load"]);
    let again = scene.run(&["apply", "plan.yaml", "--remeasure"]);
    assert!(again.stderr.contains("measurement 2 under this key; all are kept"), "{}", again.stderr);
    assert_eq!(scene.run(&["apply", "plan.yaml"]).nodes("reused"), ["load"]);
    let explained = scene.run(&["explain", "plan.yaml", "load"]).stdout;
    let measured: Vec<&str> =
        explained.lines().skip_while(|line| !line.contains("measured")).take(2).collect();
    assert!(measured[0].contains("measured  1  20") && measured[1].contains("  2  20"), "{explained}");
}

#[test]
fn a_measurement_that_is_too_old_is_made_again() {
    let old = measuring("    max_age: 1ms\n");
    let young = measuring("    max_age: 7d\n");
    for _ in 0..2 {
        assert_eq!(old.run(&["apply", "plan.yaml"]).nodes("succeeded"), ["load"]);
    }
    let plan = old.run(&["plan", "plan.yaml"]).stdout;
    assert!(plan.contains("it is older than its `max_age` of 1ms"), "{plan}");
    young.run(&["apply", "plan.yaml"]);
    assert_eq!(young.run(&["apply", "plan.yaml"]).nodes("reused"), ["load"]);
}
