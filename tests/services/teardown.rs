//! What is left of a server that has ended.

use std::os::unix::fs::PermissionsExt;

use super::*;

#[test]
fn a_server_that_ended_shows_that_nothing_of_it_is_left() {
    let (scene, ended) = serving("good", "");
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let line = ended.stderr.lines().find(|line| line.starts_with("succeeded   server")).unwrap();
    assert!(line.contains("stopped after ") && line.ends_with("; processes gone, port free"), "{line}");
    let proof = proof_of_server(&scene);
    support::schemas::assert_evidence_fits(&proof, "serve", "the evidence of a stopped server");
    let teardown = &proof["teardown"];
    assert_eq!(teardown["remains"], Value::Array(Vec::new()));
    assert!(teardown["ended"].as_str().unwrap().contains("after it was told to stop"), "{teardown}");
    let explained = scene.run(&["explain", "plan.yaml", "server"]).stdout;
    assert!(explained.contains("; processes gone, port free"), "{explained}");
}

#[test]
fn a_server_that_ignores_term_is_killed_and_the_evidence_says_so() {
    let (scene, ended) = serving("ignores-term", "");
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(proof_of_server(&scene)["teardown"]["killed"], 1);
    assert!(ended.stderr.contains("1 process killed; processes gone, port free"), "{}", ended.stderr);
}

#[test]
fn where_there_is_no_gpu_the_evidence_says_so() {
    let scene = scene().with("PATH", without_nvidia_smi());
    double::write_plan(&scene, "good", "");
    assert_eq!(apply(&scene).code, Some(0));
    let memory = &proof_of_server(&scene)["teardown"]["gpu_memory"];
    assert_eq!(memory["unavailable"], "there is no nvidia-smi on PATH");
}

fn without_nvidia_smi() -> std::ffi::OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = std::env::split_paths(&path).filter(|dir| !dir.join("nvidia-smi").exists());
    std::env::join_paths(dirs).unwrap()
}

/// A scene with a GPU whose memory in use is what `side/gpu` says.
fn with_gpu(scene: Scene) -> Scene {
    let script = format!(
        "#!/bin/sh\ncase \"$1\" in *memory.total*) echo 'Double GPU, 1000, 1';; *) cat '{}';; esac\n",
        scene.path("side/gpu").display()
    );
    scene.write("side/gpu", "0");
    let program = scene.write("bin/nvidia-smi", script);
    fs::set_permissions(program, fs::Permissions::from_mode(0o755)).unwrap();
    let mut path = scene.path("bin").into_os_string();
    path.push(":");
    path.push(without_nvidia_smi());
    scene.with("PATH", path)
}

#[test]
fn gpu_memory_that_is_given_back_is_shown() {
    let scene = with_gpu(scene());
    double::write_plan(&scene, "frees-gpu-memory", &side(&scene));
    let ended = apply(&scene);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("port free, gpu memory back"), "{}", ended.stderr);
    let memory = &proof_of_server(&scene)["teardown"]["gpu_memory"]["value"];
    assert_eq!(memory[0]["after_bytes"], 0);
}

#[test]
fn gpu_memory_that_is_not_given_back_fails_the_server_and_says_how_much() {
    let scene = with_gpu(scene());
    double::write_plan(&scene, "keeps-gpu-memory", &side(&scene));
    let ended = apply(&scene);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert_eq!(ended.nodes("failed"), ["server"]);
    let said = "GPU 0 has 900 MiB more in use than before the launch although the server has ended";
    assert!(ended.failures().contains(said), "{}", ended.failures());
    let teardown = &proof_of_server(&scene)["teardown"];
    assert!(teardown["remains"][0].as_str().unwrap().starts_with("GPU 0"), "{teardown}");
    scene.assert_nothing_runs();
}
