//! What a server of ours has to show, what becomes of one that does not, and
//! what is left when a run is interrupted: the real binary with a double of
//! llama.cpp's server.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "support/double.rs"]
mod double;
mod support;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use insta::assert_snapshot;
use rustix::process::Signal;
use support::{Ended, PROJECT, Scene, redacting, signal};

/// More than any of these runs takes on a busy machine.
const LONG: Duration = Duration::from_secs(20);

fn apply(scene: &Scene) -> Ended {
    scene.run(&["apply", "plan.yaml"])
}

mod servers {
    use super::*;

    fn serving(alias: &str, more: &str) -> (Scene, Ended) {
        let scene = Scene::isolated();
        double::write_plan(&scene, alias, more);
        let ended = apply(&scene);
        (scene, ended)
    }

    /// What is said of a server that misbehaves; nothing of it is left.
    fn refusal(alias: &str, more: &str) -> String {
        let (scene, ended) = serving(alias, more);
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        scene.assert_clean(&["build_bundle", "fetch"]);
        ended.failures()
    }

    #[test]
    fn a_server_that_proves_itself_is_used_and_stopped() {
        let (scene, ended) = serving("good", "");
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let (_, _, proof) = scene.evidence().into_iter().find(|(_, kind, _)| kind == "serve").unwrap();
        let proofs = proof["proofs"].as_array().unwrap().iter().map(|proof| proof["what"].as_str().unwrap());
        let proofs: Vec<_> = proofs.collect();
        assert_eq!(
            proofs,
            ["port_was_free", "ready", "socket_is_ours", "model_identity", "answers", "tokenizer_agrees"]
        );
        scene.assert_clean(&["build_bundle", "fetch", "warmup"]);
    }

    #[test]
    fn a_server_of_another_model_is_not_used() {
        let _redacted = redacting();
        assert_snapshot!(refusal("answers-as-another", ""), @"
        failed      warmup [TIME]: server could not be used: the server was asked to serve answers-as-another and says it serves another-model; check its program and `model_name`
                    │ loading tiny.gguf
        failed      server [TIME]: the server was asked to serve answers-as-another and says it serves another-model; check its program and `model_name`
        ");
    }

    #[test]
    fn a_setting_that_did_not_reach_the_server_is_found() {
        let _redacted = redacting();
        assert_snapshot!(refusal("wrong-context", ""), @"
        failed      warmup [TIME]: server could not be used: the server does not run as the plan states: context_length: asked for 64, GET /v1/models data[0].meta.n_ctx shows 32; correct the setting or the plan
                    │ loading tiny.gguf
        failed      server [TIME]: the server does not run as the plan states: context_length: asked for 64, GET /v1/models data[0].meta.n_ctx shows 32; correct the setting or the plan
        ");
    }

    #[test]
    fn a_server_that_answers_nothing_is_not_used() {
        let _redacted = redacting();
        assert_snapshot!(refusal("says-nothing", ""), @"
        failed      warmup [TIME]: server could not be used: the probe request was answered with status 200 and 0 characters of text
                    │ loading tiny.gguf
        failed      server [TIME]: the probe request was answered with status 200 and 0 characters of text
        ");
    }

    #[test]
    fn a_server_with_another_tokenizer_is_not_used() {
        let _redacted = redacting();
        assert_snapshot!(refusal("tokenizes-otherwise", ""), @r#"
        failed      warmup [TIME]: server could not be used: the tokenizer rebuilt from the model differs from the engine's own on "Hello, world!": [72, 101, 108, 108, 111, 44, 32, 119, 111, 114, 108, 100, 33] and [73,102,109,109,112,45,33,120,112,115,109,101,34]
        failed      server [TIME]: the tokenizer rebuilt from the model differs from the engine's own on "Hello, world!": [72, 101, 108, 108, 111, 44, 32, 119, 111, 114, 108, 100, 33] and [73,102,109,109,112,45,33,120,112,115,109,101,34]
        "#);
    }

    #[test]
    fn a_server_that_ends_at_once_is_not_waited_for() {
        let _redacted = redacting();
        assert_snapshot!(refusal("exits-at-once", "      ready_within: 1h"), @"
        failed      warmup [TIME]: server could not be used: server exited with 3; its last lines say what it was doing
                    │ loading tiny.gguf
                    │ error: unknown model architecture
        failed      server [TIME]: server exited with 3; its last lines say what it was doing
        ");
    }

    #[test]
    fn a_server_that_is_never_ready_is_given_up() {
        let _redacted = redacting();
        assert_snapshot!(refusal("never-ready", "      ready_within: 1s"), @"
        failed      warmup [TIME]: server could not be used: the server was not ready after 1 s; its last lines say what it was doing, and `ready_within` in the plan gives it more time
                    │ loading tiny.gguf
        failed      server [TIME]: the server was not ready after 1 s; its last lines say what it was doing, and `ready_within` in the plan gives it more time
        ");
    }

    #[test]
    fn a_server_that_dies_while_it_is_proved_shows_its_last_lines() {
        let _redacted = redacting();
        assert_snapshot!(refusal("dies-in-the-probe", ""), @"
        failed      warmup [TIME]: server could not be used: server exited with 9; its last lines say what it was doing
                    │ loading tiny.gguf
                    │ ggml: out of memory
        failed      server [TIME]: server exited with 9; its last lines say what it was doing
        ");
    }

    #[test]
    fn a_server_that_dies_in_use_fails_the_node_that_uses_it() {
        let _redacted = redacting();
        assert_snapshot!(refusal("dies-in-use", ""), @"
        failed      warmup [TIME]: server exited with 9; its last lines say what it was doing
                    │ loading tiny.gguf
                    │ ggml: out of memory
        failed      server [TIME]: server exited with 9; its last lines say what it was doing
        ");
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let _redacted = redacting();
        let scene = Scene::isolated();
        double::write_plan(&scene, "good", "");
        let text = fs::read_to_string(scene.path("plan.yaml")).unwrap();
        let program = format!("{PROJECT}/tests/doubles/llama_server.py");
        scene.write("plan.yaml", text.replace(&program, "no-such-server"));
        let ended = apply(&scene);
        assert_eq!(ended.code, Some(3));
        assert_snapshot!(ended.failures(), @"failed      bundle [TIME]: the program no-such-server was not found; install it or correct its path in the site file");
        scene.assert_clean(&["fetch"]);
    }

    #[test]
    fn a_model_file_cut_short_makes_no_bundle() {
        let _redacted = redacting();
        let scene = Scene::isolated();
        double::write_plan(&scene, "good", "");
        let model = double::model();
        scene.write("tiny.gguf", &model[..model.len() - 8]);
        let ended = apply(&scene);
        assert_eq!(ended.code, Some(3));
        assert_snapshot!(ended.failures(), @"failed      bundle [TIME]: the model file cannot be used: the model file is cut short: its header says that the last of its tensors (1) ends at byte 3976, the file has 3968; fetch it again");
        scene.assert_clean(&["fetch"]);
    }

    #[test]
    fn a_model_of_another_precision_makes_no_bundle() {
        let _redacted = redacting();
        let scene = Scene::isolated();
        double::write_plan(&scene, "good", "");
        let text = fs::read_to_string(scene.path("plan.yaml")).unwrap();
        scene.write("plan.yaml", text.replace("precision: Q4_1", "precision: Q8_0"));
        let ended = apply(&scene);
        assert_eq!(ended.code, Some(1));
        assert_snapshot!(ended.failures(), @"failed      bundle [TIME]: the bundle is not what the plan asks for: precision: asked for Q8_0, general.file_type of the GGUF header shows Q4_1; build it again or correct the plan");
        scene.assert_clean(&["fetch"]);
    }

    #[test]
    fn a_fixed_port_that_is_taken_is_left_to_its_holder() {
        let holder = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = holder.local_addr().unwrap().port();
        let (scene, ended) = serving("good", &format!("      port: {port}"));
        assert_eq!(ended.code, Some(3), "{}", ended.stderr);
        let failures = ended.failures();
        let taken = format!("port {port} is taken by process {} (", std::process::id());
        assert!(failures.contains(&taken), "{failures}");
        scene.assert_clean(&["build_bundle", "fetch"]);
        drop(holder);
    }

    /// The older server on the same port that answers in our server's place.
    #[test]
    fn a_stranger_that_answers_on_our_port_is_found_out() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let scene = Scene::isolated();
        double::write_plan(&scene, "never-listens", &format!("      port: {port}"));
        let running = scene.start(&["apply", "plan.yaml"]);
        scene.await_process(&format!("--port {port}"), LONG);
        let stranger = TcpListener::bind(("127.0.0.1", port)).unwrap();
        std::thread::spawn(move || {
            while let Ok((mut client, _)) = stranger.accept() {
                let _ = client.read(&mut [0; 4096]);
                let _ =
                    client.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}");
            }
        });
        let ended = running.wait();
        assert_eq!(ended.code, Some(3), "{}", ended.stderr);
        let failures = ended.failures();
        let us = format!(
            "port {port} is answered by a process that is not ours, process {} (",
            std::process::id()
        );
        assert!(failures.contains(&us), "{failures}");
        scene.assert_clean(&["build_bundle", "fetch"]);
    }
}

mod interruptions {
    use super::*;

    /// A run whose server loads for ever.
    fn waiting(scene: &Scene) -> support::Running {
        double::write_plan(scene, "never-ready", "      ready_within: 1h");
        let running = scene.start(&["apply", "plan.yaml"]);
        scene.await_process("--alias never-ready", LONG);
        running
    }

    #[test]
    fn a_second_apply_learns_who_runs() {
        let scene = Scene::isolated();
        let first = waiting(&scene);
        // Its output goes where the first one's goes, so it gets a place of its own.
        let second = Scene::isolated();
        let state = scene.path(".orchestrate");
        let plan = scene.path("plan.yaml");
        let ended = second.run(&["apply", plan.to_str().unwrap(), "--state", state.to_str().unwrap()]);
        assert_eq!(ended.code, Some(3));
        assert!(ended.stderr.contains(&format!("process {} since", first.pid())), "{}", ended.stderr);
        let _redacted = redacting();
        assert_snapshot!(ended.stderr, @"error: another apply of this project is running: process [N] since [INSTANT], plan double; wait for it with `--wait`, or stop it");
        let status = second.run(&["status", "--state", state.to_str().unwrap()]);
        assert_eq!(status.code, Some(0), "readers do not wait: {}", status.stderr);
        signal(first.pid(), Signal::INT);
        assert_eq!(first.wait().code, Some(130));
        scene.assert_clean(&["build_bundle", "fetch"]);
    }

    #[test]
    fn an_interrupted_run_ends_its_server_and_says_so() {
        for kind in [Signal::INT, Signal::TERM] {
            let scene = Scene::isolated();
            let running = waiting(&scene);
            signal(running.pid(), kind);
            let ended = running.wait();
            assert_eq!(ended.code, Some(130), "{}", ended.stderr);
            assert_eq!(ended.nodes("cancelled"), ["warmup"], "{}", ended.stderr);
            scene.assert_clean(&["build_bundle", "fetch"]);
        }
    }

    #[test]
    fn a_killed_run_takes_its_server_along_and_the_next_one_goes_on() {
        let scene = Scene::isolated();
        let running = waiting(&scene);
        signal(running.pid(), Signal::KILL);
        running.wait();
        scene.await_nothing_runs();
        double::write_plan(&scene, "good", "");
        let ended = apply(&scene);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert_eq!(ended.nodes("reused"), ["bundle", "model"]);
        scene.assert_clean(&["build_bundle", "fetch", "warmup"]);
    }
}
