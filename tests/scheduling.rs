//! Which nodes of a plan run, beside what, in which order, and how often: the
//! real binary in real processes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "support/double.rs"]
mod double;
mod support;

use std::fmt::Write as _;
use std::fs;

use insta::assert_snapshot;
use support::{Ended, PROJECT, Scene, redacting, signal};

/// A scene with a plan of these nodes, whose commands find `$SIDE`, a
/// directory of their own.
fn plan(head: &str, nodes: &str) -> Scene {
    let scene = Scene::isolated();
    let side = scene.path("side");
    fs::create_dir(&side).unwrap();
    scene.write("plan.yaml", format!("orchestrate: 1\nname: scheduling\n{head}\nnodes:\n{nodes}"));
    scene.with("SIDE", side)
}

/// A node that runs a shell text, with more settings beside its kind.
fn node(name: &str, text: &str, more: &str) -> String {
    format!(
        "  {name}:
    run:
      command: [sh, -c, '{text}']
      outputs: {{out: out}}
      environment: {{SIDE: '${{env.SIDE}}'}}
    {more}
"
    )
}

fn apply(scene: &Scene, options: &[&str]) -> Ended {
    scene.run(&[&["apply", "plan.yaml"], options].concat())
}

fn side(scene: &Scene, name: &str) -> String {
    fs::read_to_string(scene.path("side").join(name)).unwrap_or_default()
}

/// Notes in `$SIDE/most` how many of its kind ran at the same time.
const CROWD: &str = "mkdir -p $SIDE/in; touch $SIDE/in/$$; sleep 0.3; ls $SIDE/in | wc -l >> $SIDE/most; \
                     sleep 0.2; rm $SIDE/in/$$; echo x > out";

fn most_at_once(scene: &Scene) -> u32 {
    side(scene, "most").lines().map(|line| line.trim().parse::<u32>().unwrap()).max().unwrap()
}

mod retries {
    use super::*;

    const THIRD: &str = "echo try >> $SIDE/tries; [ $(wc -l < $SIDE/tries) -ge 3 ] || exit 7; echo x > out";

    #[test]
    fn a_node_is_tried_again_as_often_as_the_plan_says_and_every_attempt_is_recorded() {
        let scene = plan("", &node("flaky", THIRD, "retry: {times: 2, wait: 10ms}"));
        let ended = apply(&scene, &[]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let rows = scene.records().into_iter();
        let rows: Vec<_> = rows.map(|row| (row.attempt, row.outcome, row.reason.unwrap())).collect();
        assert_snapshot!(rows.iter().fold(String::new(), |mut text, row| {
            writeln!(text, "{} {}: {}", row.0, row.1, row.2).unwrap();
            text
        }), @"
        1 failed: its command exited with 7; its log says why; retry 1 of 2 follows in 0.01 s
        2 failed: its command exited with 7; its log says why; retry 2 of 2 follows in 0.02 s
        3 succeeded: attempt 1 failed: its command exited with 7; its log says why; attempt 2 failed: its command exited with 7; its log says why
        ");
        let _redacted = redacting();
        assert_snapshot!(ended.stderr, @"
        run         [RUN] of plan scheduling, 1 nodes
        started     flaky (run)
        retried     flaky [TIME]: its command exited with 7; its log says why; retry 1 of 2 follows in 0.01 s
        started     flaky (run)
        retried     flaky [TIME]: its command exited with 7; its log says why; retry 2 of 2 follows in 0.02 s
        started     flaky (run)
        succeeded   flaky [TIME]: attempt 1 failed: its command exited with 7; its log says why; attempt 2 failed: its command exited with 7; its log says why
        nodes       1 succeeded
        run         exit 0 (done) in [TIME]
        ");
        for (attempt, end) in [("1", "attempt 1 failed"), ("2", "attempt 2 failed")] {
            let log = scene.run(&["logs", "flaky", "--attempt", attempt]);
            assert!(log.stdout.starts_with(&format!("orchestrate: {end}")), "{attempt}: {}", log.stdout);
        }
    }

    #[test]
    fn a_node_that_fails_every_time_fails() {
        let scene =
            plan("", &node("flaky", "echo try >> $SIDE/tries; exit 7", "retry: {times: 1, wait: 1ms}"));
        let ended = apply(&scene, &[]);
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        assert_eq!(side(&scene, "tries"), "try\ntry\n");
        assert_eq!(ended.nodes("failed"), ["flaky"]);
    }

    #[test]
    fn without_retry_a_node_has_one_attempt() {
        let scene = plan("", &node("flaky", THIRD, ""));
        assert_eq!(apply(&scene, &[]).code, Some(1));
        assert_eq!(side(&scene, "tries"), "try\n");
    }

    #[test]
    fn an_interrupt_does_not_wait_for_the_next_attempt() {
        let scene = plan("", &node("flaky", "exit 7", "retry: {times: 1, wait: 1h}"));
        let running = scene.start(&["apply", "plan.yaml"]);
        support::wait_for("the first attempt", std::time::Duration::from_secs(20), || {
            running.stderr().contains("retried").then_some(())
        });
        signal(running.pid(), rustix::process::Signal::INT);
        let ended = running.wait();
        assert_eq!(ended.code, Some(130), "{}", ended.stderr);
    }
}

mod time_limits {
    use super::*;

    #[test]
    fn a_node_ends_with_everything_it_started_before_the_next_one_begins() {
        let deaf = "trap \"\" TERM; echo working; sleep 60 & sleep 60; echo x > out";
        let witness = "ls /proc/[0-9]*/environ | xargs grep -ls DEAF=$SIDE > $SIDE/alive; echo x > out";
        let text = node("deaf", deaf, "timeout: 300ms")
            .replace("environment: {", "environment: {DEAF: '${env.SIDE}', ")
            + &node("witness", witness, "resources: {turn: 1}");
        let text = text.replace("timeout: 300ms", "timeout: 300ms\n    resources: {turn: 1}");
        let scene = plan("resources: {turn: 1}", &text);
        let ended = apply(&scene, &["--keep-going"]);
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        let failures = ended.failures();
        assert!(failures.contains("it took longer than its timeout of 0.3 s; raise `timeout`"), "{failures}");
        assert!(failures.contains("│ working"), "{failures}");
        assert_eq!(ended.nodes("succeeded"), ["witness"], "{}", ended.stderr);
        assert_eq!(side(&scene, "alive"), "");
        scene.assert_nothing_runs();
    }
}

mod resources {
    use super::*;

    #[test]
    fn nodes_share_what_there_is_of_a_token() {
        let takers: String =
            (0..4).map(|number| node(&format!("n{number}"), CROWD, "resources: {license: 1}")).collect();
        let scene = plan("resources: {license: 2}", &takers);
        let ended = apply(&scene, &["--jobs", "4"]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert_eq!(most_at_once(&scene), 2);
    }

    #[test]
    fn more_processors_than_the_machine_has_means_all_of_them() {
        let takers: String =
            (0..2).map(|number| node(&format!("n{number}"), CROWD, "resources: {cpu: 10000}")).collect();
        let scene = plan("", &takers);
        let ended = apply(&scene, &["--jobs", "4"]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert_eq!(most_at_once(&scene), 1);
    }

    #[test]
    fn an_accelerator_that_the_machine_lacks_is_named() {
        let scene = plan("", &node("large", "echo x > out", "resources: {gpu: 4096}"));
        let ended = apply(&scene, &[]);
        assert_eq!(ended.code, Some(3), "{}", ended.stderr);
        let failures = ended.failures();
        assert!(failures.contains("it takes 4096 of `gpu` and there is 0"), "{failures}");
    }

    /// Two servers that take the same token, and users of them by turns.
    fn two_servers(more: &str) -> Ended {
        let scene = Scene::isolated();
        fs::create_dir(scene.path("side")).unwrap();
        double::write_plan(&scene, "good", "    resources: {slot: 1, cpu: 10000}");
        let plan = fs::read_to_string(scene.path("plan.yaml")).unwrap();
        let user = |name: &str, server: &str, more: &str| {
            let text = format!("echo ${{nodes.{server}.url}} > out");
            node(name, &text, more)
        };
        let more = [
            "  other:
    serve: {bundle: '${nodes.bundle}', model_name: good}
    resources: {slot: 1}
"
            .to_owned(),
            user("first", "server", "needs: [warmup]"),
            user("second", "other", "resources: {cpu: 10000}\n    needs: [first]"),
            user("third", "server", &format!("needs: [second]{more}")),
        ];
        let plan = plan.replace("nodes:\n", "resources: {slot: 1}\nnodes:\n") + &more.concat();
        scene.write("plan.yaml", plan);
        let side_dir = scene.path("side");
        let scene = scene.with("SIDE", side_dir);
        let ended = apply(&scene, &["--jobs", "4"]);
        scene.assert_nothing_runs();
        ended
    }

    #[test]
    fn a_server_that_holds_what_another_needs_is_stopped_while_nobody_uses_it() {
        let ended = two_servers("");
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert_eq!(ended.nodes("failed"), [""; 0]);
    }

    #[test]
    fn a_node_that_takes_what_its_own_server_has_is_told_so() {
        let ended = two_servers("\n    resources: {slot: 1}");
        assert_eq!(ended.code, Some(3), "{}", ended.stderr);
        let failures = ended.failures();
        assert!(
            failures.contains("with the servers it uses it takes 2 of `slot` and there is 1"),
            "{failures}"
        );
    }

    #[test]
    fn jobs_limits_how_many_nodes_run() {
        let nodes: String = (0..3).map(|number| node(&format!("n{number}"), CROWD, "")).collect();
        let scene = plan("", &nodes);
        assert_eq!(apply(&scene, &["--jobs", "1"]).code, Some(0));
        assert_eq!(most_at_once(&scene), 1);
    }
}

mod order {
    use super::*;

    #[test]
    fn the_longest_chain_is_started_first() {
        let chain = "
  z1:
    run: {command: [sh, -c, 'echo z1 >> $SIDE/ran; echo x > out'], outputs: {out: out}, environment: {SIDE: '${env.SIDE}', TELL: '${params.tell}'}}
  z2:
    run: {command: [sh, -c, 'sleep 0.3; echo z2 >> $SIDE/ran; cat in > out'], inputs: {in: '${nodes.z1.out}'}, outputs: {out: out}, environment: {SIDE: '${env.SIDE}', TELL: '${params.tell}'}}
";
        let short = "
  a1:
    run: {command: [sh, -c, 'echo a1 >> $SIDE/ran; echo x > out'], outputs: {out: out}, environment: {SIDE: '${env.SIDE}', TELL: '${params.tell}'}}
";
        let scene = plan("params: {tell: one}", &format!("{short}{chain}"));
        let alone = ["--jobs", "1"];
        assert_eq!(apply(&scene, &alone).code, Some(0));
        assert!(side(&scene, "ran").starts_with("z1\n"), "more is to come after it: {}", side(&scene, "ran"));
        fs::remove_file(scene.path("side/ran")).unwrap();
        // Now it is known that the second step of the chain is the long one.
        assert_eq!(apply(&scene, &["--jobs", "1", "--set", "tell=two"]).code, Some(0));
        assert_eq!(side(&scene, "ran"), "z1\nz2\na1\n");
    }
}

mod selection {
    use super::*;

    const STAGES: &str = "
  first:
    run: {command: [sh, -c, 'echo first >> $SIDE/ran; echo x > out'], outputs: {out: out}, environment: {SIDE: '${env.SIDE}'}}
  second:
    run: {command: [sh, -c, 'echo second >> $SIDE/ran; cat in > out'], inputs: {in: '${nodes.first.out}'}, outputs: {out: out}, environment: {SIDE: '${env.SIDE}'}}
  third:
    run: {command: [sh, -c, 'echo third >> $SIDE/ran; cat in > out'], inputs: {in: '${nodes.second.out}'}, outputs: {out: out}, environment: {SIDE: '${env.SIDE}'}}
  beside:
    run: {command: [sh, -c, 'echo beside >> $SIDE/ran; echo y > out'], outputs: {out: out}, environment: {SIDE: '${env.SIDE}'}}
";

    #[test]
    fn until_runs_a_node_and_what_it_depends_on() {
        let scene = plan("", STAGES);
        let told = scene.run(&["plan", "plan.yaml", "--until", "second", "--json"]);
        let told: serde_json::Value = serde_json::from_str(&told.stdout).unwrap();
        assert_eq!((&told["totals"]["run"], &told["totals"]["blocked"]), (&2.into(), &2.into()), "{told}");
        let ended = apply(&scene, &["--until", "second"]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert_eq!(ended.nodes("succeeded"), ["first", "second"]);
        assert_eq!(ended.nodes("skipped"), ["beside", "third"]);
    }

    #[test]
    fn from_runs_a_node_and_what_depends_on_it() {
        let scene = plan("", STAGES);
        assert_eq!(apply(&scene, &["--until", "first"]).code, Some(0));
        let ended = apply(&scene, &["--from", "second"]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert_eq!(
            (ended.nodes("reused"), ended.nodes("succeeded")),
            (vec!["first"], vec!["second", "third"])
        );
        assert_eq!(ended.nodes("skipped"), ["beside"]);
    }

    #[test]
    fn from_and_until_together_run_what_lies_between() {
        let scene = plan("", STAGES);
        assert_eq!(apply(&scene, &["--until", "first"]).code, Some(0));
        let ended = apply(&scene, &["--from", "second", "--until", "second"]);
        assert_eq!(ended.nodes("succeeded"), ["second"]);
        let nothing = apply(&scene, &["--from", "third", "--until", "first"]);
        assert_eq!(nothing.code, Some(2), "{}", nothing.stderr);
    }

    #[test]
    fn only_takes_everything_else_from_the_store_or_says_what_is_missing() {
        let scene = plan("", STAGES);
        let _redacted = redacting();
        let ended = apply(&scene, &["--only", "second"]);
        assert_eq!(ended.code, Some(3), "{}", ended.stderr);
        assert_eq!(side(&scene, "ran"), "");
        assert_snapshot!(ended.stderr, @"
        run         [RUN] of plan scheduling, 4 nodes
        skipped     first: its result is not in the store and --only leaves it out; --until runs what is needed
        skipped     second: first was skipped
        skipped     third: second was skipped
        skipped     beside: left out after first failed; --keep-going runs it
        nodes       4 skipped
        run         exit 3 (this environment cannot run it) in [TIME]
        ");
        let told = scene.run(&["plan", "plan.yaml", "--only", "second"]);
        assert_snapshot!(told.stdout, @"
        blocked     first   run
                    its result is not in the store and --only leaves it out; --until runs what is needed
        blocked     second  run
                    first was skipped
        blocked     third   run
                    second was skipped
        blocked     beside  run
                    left out by --only
        0 would run, 0 reused, 0 not run, 4 blocked
        ");
    }

    #[test]
    fn what_is_left_out_and_in_the_store_is_still_reused() {
        let scene = plan("", STAGES);
        assert_eq!(apply(&scene, &[]).code, Some(0));
        let ended = apply(&scene, &["--only", "third", "--remeasure"]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert_eq!(ended.nodes("reused"), ["beside", "first", "second", "third"]);
    }

    #[test]
    fn a_node_that_is_not_there_is_met_with_the_nearest() {
        let scene = plan("", STAGES);
        let ended = apply(&scene, &["--until", "secnd"]);
        assert_eq!(ended.code, Some(2));
        assert!(ended.stderr.contains("second"), "{}", ended.stderr);
        scene.assert_untouched();
    }
}

mod quiet {
    use super::*;

    /// A measurement that notes how many servers of the scene run.
    fn measurement(name: &str, server: &str, needs: &str) -> String {
        format!(
            "  {name}:
    run:
      command: [sh, -c, 'grep -ls [l]lama_server.py /proc/[0-9]*/cmdline | xargs grep -ls $(dirname $SIDE) | wc -l >> $SIDE/servers; echo {name} >> $SIDE/ran; echo x > out']
      outputs: {{out: out}}
      environment: {{SIDE: '${{env.SIDE}}', URL: '${{nodes.{server}.url}}'}}
      reuse: measurement
    needs: [{needs}]
"
        )
    }

    #[test]
    fn a_measurement_runs_beside_no_server_but_its_own_and_a_paused_one_is_warmed_up_again() {
        let scene = Scene::isolated();
        fs::create_dir(scene.path("side")).unwrap();
        double::write_plan(&scene, "good", "");
        let mut plan = fs::read_to_string(scene.path("plan.yaml")).unwrap();
        plan += "  other:
    serve: {bundle: '${nodes.bundle}', model_name: good}
  other-warmup:
    warmup: {server: '${nodes.other}', requests: 1}
";
        plan += &measurement("measure", "server", "warmup");
        plan += &measurement("other-measure", "other", "other-warmup, measure");
        plan += &measurement("again", "server", "warmup, other-measure");
        scene.write("plan.yaml", plan);
        let side_dir = scene.path("side");
        let scene = scene.with("SIDE", side_dir);
        let ended = apply(&scene, &["--jobs", "4"]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert_eq!(side(&scene, "ran"), "measure\nother-measure\nagain\n");
        assert_eq!(side(&scene, "servers"), "1\n1\n1\n");
        let warmups = scene.records().into_iter().filter(|row| row.node == "warmup");
        assert_eq!(warmups.map(|row| row.attempt).max(), Some(2), "{}", ended.stderr);
        scene.assert_nothing_runs();
    }
}
