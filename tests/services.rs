//! The life of a server: how long it is waited for, what is measured when it
//! dies, what is left when it has ended. The real binary with a double of
//! llama.cpp's server.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "support/double.rs"]
mod double;
#[path = "services/impostors.rs"]
mod impostors;
mod support;
#[path = "services/teardown.rs"]
mod teardown;

use std::fs;
use std::net::TcpListener;
use std::time::Duration;

use serde_json::Value;
use support::{Ended, PROJECT, Scene, wait_for};

/// More than any of these runs takes on a busy machine.
const LONG: Duration = Duration::from_secs(30);

/// A measurement on the server, after the warmup.
const LOAD: &str = "
  load:
    warmup:
      server: ${nodes.server}
      requests: 2
    needs: [warmup]
";

/// A measurement that begins when a command after the warmup has ended.
fn load_after(command: &str) -> String {
    let wait = format!(
        "
  wait:
    run: {{command: [sh, -c, '{command}; echo over > out'], outputs: {{out: out}}}}
    needs: [warmup]
"
    );
    wait + &LOAD.replace("[warmup]", "[warmup, wait]")
}

/// A place whose servers find a directory for their notes.
fn scene() -> Scene {
    let scene = Scene::isolated();
    fs::create_dir(scene.path("side")).unwrap();
    scene
}

fn apply(scene: &Scene) -> Ended {
    scene.run(&["apply", "plan.yaml"])
}

fn serving(alias: &str, more_of_serve: &str) -> (Scene, Ended) {
    let scene = scene();
    double::write_plan(&scene, alias, more_of_serve);
    let ended = apply(&scene);
    scene.assert_nothing_runs();
    (scene, ended)
}

/// The variable by which the double finds the place for its notes.
fn side(scene: &Scene) -> String {
    format!("      environment: {{SIDE: '{}'}}\n", scene.path("side").display())
}

/// The server's own evidence.
fn proof_of_server(scene: &Scene) -> Value {
    scene.evidence().into_iter().find(|(_, kind, _)| kind == "serve").unwrap().2
}

/// Attempts, outcomes and reasons of a node in the newest run.
fn attempts(scene: &Scene, node: &str) -> Vec<(u32, String, String)> {
    let records = scene.records().into_iter().filter(|row| row.node == node);
    records.map(|row| (row.attempt, row.outcome, row.reason.unwrap_or_default())).collect()
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

mod loading {
    use super::*;

    #[test]
    fn a_slow_load_is_waited_for_while_its_log_grows() {
        let (scene, ended) = serving("loads-slowly", "      silent_for: 1s");
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert!(proof_of_server(&scene)["ready_after_ms"].as_u64().unwrap() >= 2000);
    }

    #[test]
    fn a_slow_load_is_waited_for_while_it_computes() {
        let (_, ended) = serving("loads-busily", "      silent_for: 1s");
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    }

    #[test]
    fn a_server_that_hangs_is_given_up_long_before_its_total_limit() {
        for alias in ["never-listens", "never-ready"] {
            let (scene, ended) = serving(alias, "      silent_for: 1s\n      ready_within: 20s");
            assert_eq!(ended.code, Some(1), "{}", ended.stderr);
            let said = "the server gave no sign of life for 1 s while it loaded; its last lines say what it \
                        was doing, and `silent_for` in the plan gives it more time";
            assert!(ended.failures().contains(said), "{alias}: {}", ended.failures());
            assert!(ended.failures().contains("│ loading tiny.gguf"), "{}", ended.failures());
            scene.assert_clean(&["build_bundle", "fetch"]);
        }
    }

    #[test]
    fn a_dead_server_is_noticed_at_once_and_not_at_the_deadline() {
        let (_, ended) = serving("dies-while-loading", "      silent_for: 1h\n      ready_within: 1h");
        assert_eq!(ended.code, Some(1));
        assert!(ended.failures().contains("server exited with 9"), "{}", ended.failures());
        assert!(ended.took < LONG, "{:?}", ended.took);
    }

    #[test]
    fn a_load_does_not_begin_while_part_of_the_workers_is_still_loading() {
        let (scene, ended) = serving("half-loaded", "");
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        let said = "the probe request was answered with status 503 and 0 characters of text";
        assert!(ended.failures().contains(said), "{}", ended.failures());
        scene.assert_clean(&["build_bundle", "fetch"]);
    }

    #[test]
    fn a_limit_of_no_time_is_a_mistake_of_the_plan() {
        let (scene, ended) = serving("good", "      silent_for: 0s");
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        assert!(ended.stderr.contains("`silent_for` is no time at all"), "{}", ended.stderr);
        scene.assert_untouched();
    }
}

mod requested_beside_effective {
    use super::*;

    #[test]
    fn a_configured_override_that_did_not_reach_the_server_fails_it() {
        let (scene, ended) = serving("forgets-its-environment", "      environment: {OMP_NUM_THREADS: '3'}");
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        let said = "the server does not run as the plan states: environment OMP_NUM_THREADS: asked for 3, \
                    the environment of the process that listens shows nothing; correct the setting or the plan";
        assert!(ended.failures().contains(said), "{}", ended.failures());
        scene.assert_clean(&["build_bundle", "fetch"]);
    }

    #[test]
    fn what_was_launched_is_recorded_without_places_and_secrets() {
        let environment =
            "      environment: {OMP_NUM_THREADS: '3', HF_TOKEN: hf_abcdef, LIB: /home/someone/lib}";
        let (scene, ended) = serving("good", environment);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let proof = proof_of_server(&scene);
        let set = &proof["environment"]["set"];
        assert_eq!(
            [&set["OMP_NUM_THREADS"], &set["HF_TOKEN"], &set["LIB"]],
            ["3", "***", "lib"].map(Value::from).each_ref()
        );
        let inherited = proof["environment"]["inherited"].as_array().unwrap();
        assert!(inherited.contains(&"PATH".into()), "{inherited:?}");
        assert!(
            !proof.to_string().contains("hf_abcdef") && !proof.to_string().contains("someone"),
            "{proof}"
        );
    }

    #[test]
    fn each_setting_of_the_engine_that_is_not_in_effect_fails_the_server() {
        for (alias, difference) in [
            ("wrong-context", "context_length: asked for 64, GET /v1/models data[0].meta.n_ctx shows 32"),
            ("wrong-slots", "slots: asked for 1, GET /props total_slots shows 2"),
            ("wrong-precision", "precision: asked for Q4_1, GET /v1/models data[0].meta.ftype shows Q8_0"),
        ] {
            let (scene, ended) = serving(alias, "");
            assert_eq!(ended.code, Some(1), "{alias}");
            assert!(ended.failures().contains(difference), "{}", ended.failures());
            scene.assert_clean(&["build_bundle", "fetch"]);
        }
    }
}

mod deaths {
    use super::*;

    #[test]
    fn an_engine_that_died_after_its_start_does_not_let_the_job_pass() {
        let scene = scene();
        double::write_plan_with(&scene, "dies-later", "", &load_after("sleep 1"));
        let ended = apply(&scene);
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        assert_eq!(ended.nodes("failed"), ["load", "server"], "{}", ended.stderr);
        assert!(ended.failures().contains("server exited with 9"), "{}", ended.failures());
        assert!(ended.failures().contains("│ ggml: out of memory"), "{}", ended.failures());
        assert_eq!(attempts(&scene, "load").len(), 1);
        scene.assert_nothing_runs();
    }

    #[test]
    fn a_server_that_may_restart_is_started_again_and_the_measurement_starts_over() {
        let scene = scene();
        let settings = format!("{}      restart: 1", side(&scene));
        double::write_plan_with(&scene, "dies-once-in-use", &settings, LOAD);
        let ended = apply(&scene);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let outcomes = |node: &str| {
            attempts(&scene, node)
                .into_iter()
                .map(|(number, outcome, _)| (number, outcome))
                .collect::<Vec<_>>()
        };
        let twice = [(1, "failed".to_owned()), (2, "succeeded".to_owned())];
        assert_eq!(outcomes("warmup"), twice);
        assert_eq!(outcomes("server"), twice);
        assert_eq!(outcomes("load"), [(1, "succeeded".to_owned())]);
        let why = &attempts(&scene, "warmup")[0].2;
        assert_eq!(
            why,
            "server exited with 9; its last lines say what it was doing; server is started again, 1 of at \
             most 1 times; then warmup is tried again"
        );
        assert!(ended.stderr.lines().any(|line| line.starts_with("retried     warmup")), "{}", ended.stderr);
        let log = scene.run(&["logs", "server", "--attempt", "1"]).stdout;
        assert!(log.contains("orchestrate: attempt 1 failed: server exited with 9"), "{log}");
        scene.assert_nothing_runs();
    }

    #[test]
    fn two_nodes_that_lose_the_same_server_share_its_restart() {
        let user = |name: &str, work: &str| {
            format!(
                "
  {name}:
    run:
      command: [sh, -c, 'test -e $SIDE/died || {{ {work}; }}; echo done > out']
      environment: {{SIDE: '${{env.SIDE}}', URL: '${{nodes.server.url}}', ASK: '${{env.ASK}}'}}
      outputs: {{out: out}}
    needs: [warmup]
"
            )
        };
        let kill = "sleep 1; touch $SIDE/died; python3 -c \"$ASK\"; sleep 60";
        let scene = scene();
        let side = scene.path("side");
        let nodes = user("one", kill) + &user("other", "sleep 60");
        double::write_plan_with(&scene, "dies-when-told", "      restart: 1", &nodes);
        let ask = "import os, urllib.request as u; u.urlopen(os.environ['URL'] + '/die')";
        let scene = scene.with("SIDE", side).with("ASK", ask);
        let ended = apply(&scene);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        for node in ["one", "other", "server", "warmup"] {
            let numbers: Vec<_> = attempts(&scene, node).iter().map(|row| row.0).collect();
            assert_eq!(numbers, [1, 2], "{node}: {}", ended.stderr);
        }
        scene.assert_nothing_runs();
    }

    #[test]
    fn what_primed_a_server_runs_again_when_it_is_started_again() {
        let scene = scene();
        let settings = format!("{}      restart: 1", side(&scene));
        // The warmup's two answers and the probe's pass; the first of the load is the fourth.
        double::write_plan_with(&scene, "dies-once-in-the-load", &settings, LOAD);
        let ended = apply(&scene);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let numbers = |node: &str| attempts(&scene, node).iter().map(|row| row.0).collect::<Vec<_>>();
        assert_eq!(numbers("load"), [1, 2]);
        assert!(numbers("warmup").contains(&2), "{:?}", numbers("warmup"));
        let again = ended.stderr.lines().any(|line| line == "again       warmup: server is started again");
        assert!(again, "{}", ended.stderr);
        scene.assert_clean(&["build_bundle", "fetch", "warmup", "warmup"]);
    }

    #[test]
    fn a_server_that_dies_again_and_again_fails_what_uses_it() {
        let (scene, ended) = serving("dies-in-use", "      restart: 2");
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        assert_eq!(attempts(&scene, "warmup").len(), 3, "{:?}", attempts(&scene, "warmup"));
        assert_eq!(ended.nodes("failed"), ["server", "warmup"]);
        scene.assert_clean(&["build_bundle", "fetch"]);
    }

    #[test]
    fn how_a_server_is_waited_for_and_restarted_is_not_what_it_serves() {
        let scene = scene();
        double::write_plan(&scene, "good", "");
        assert_eq!(apply(&scene).code, Some(0));
        double::write_plan(&scene, "good", "      silent_for: 5s\n      ready_within: 1h\n      restart: 3");
        let ended = apply(&scene);
        assert_eq!(ended.nodes("reused"), ["bundle", "model", "server", "warmup"], "{}", ended.stderr);
    }
}
