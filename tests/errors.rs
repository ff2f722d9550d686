//! What a user sees when something is wrong, and that nothing is left of it:
//! the real binary, a store of its own, no network.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use insta::assert_snapshot;
use support::{Ended, PROJECT, Scene, redacting};

/// More than any of these runs takes on a busy machine.
const LONG: Duration = Duration::from_secs(20);

/// A scene with a plan of these nodes.
fn plan(nodes: &str) -> Scene {
    let scene = Scene::isolated();
    scene.write("plan.yaml", format!("orchestrate: 1\nname: errors\nnodes:\n{nodes}"));
    scene
}

fn apply(scene: &Scene) -> Ended {
    scene.run(&["apply", "plan.yaml"])
}

mod sources {
    use super::*;

    #[test]
    fn a_file_with_another_digest_is_not_taken() {
        let scene = plan(
            "  file:
    fetch:
      sources: [{path: a.txt, sha256: '0000000000000000000000000000000000000000000000000000000000000000'}]
",
        );
        let _redacted = redacting();
        scene.write("a.txt", "another text");
        let ended = apply(&scene);
        assert_eq!(ended.code, Some(3));
        assert_snapshot!(ended.failures(), @"failed      file [TIME]: the file a.txt is not the pinned file: its sha256 is [DIGEST], the plan states [DIGEST]; get the pinned file, or pin this one on purpose");
        scene.assert_clean(&[]);
    }

    #[test]
    fn a_file_that_only_a_site_can_give_is_asked_of_the_site() {
        let scene = plan("  file:\n    fetch:\n      sources: [{path: '${site.file:-}'}]\n");
        let _redacted = redacting();
        let ended = apply(&scene);
        assert_eq!(ended.code, Some(3));
        assert_snapshot!(ended.failures(), @"failed      file [TIME]: no source of the file is given: every path is empty; name a copy of it in the site file, by the value that `sources` refers to, and run with --site SITE.yaml");
        scene.assert_clean(&[]);
    }

    #[test]
    fn a_file_that_is_nowhere_is_an_error_that_names_every_place() {
        let scene = plan(
            "  file:
    fetch:
      sources:
        - path: a.txt
        - path: ''
        - path: /nowhere/private/b.txt
        - path: .
        - url: https://127.0.0.1:1/c.txt
          sha256: '0000000000000000000000000000000000000000000000000000000000000000'
",
        );
        let _redacted = redacting();
        let ended = apply(&scene);
        assert_eq!(ended.code, Some(3));
        assert_snapshot!(ended.failures(), @"failed      file [TIME]: no source of the file answered (the file a.txt: there is no such file; the file b.txt that the site names: there is no such file; the file .: it is not a regular file; https://127.0.0.1:1/c.txt: it cannot be reached (Connection refused (os error 111))); name a copy of it in the site file, or connect to the network");
        scene.assert_clean(&[]);
    }

    #[test]
    fn a_file_that_is_shorter_than_stated_is_cut_short() {
        let scene = plan(
            "  model:
    fetch:
      sources:
        - path: model.gguf
          sha256: b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
          bytes: 98362432
",
        );
        let _redacted = redacting();
        scene.write("model.gguf", [0_u8; 100]);
        let ended = apply(&scene);
        assert_eq!(ended.code, Some(3));
        assert_snapshot!(ended.failures(), @"failed      model [TIME]: the file model.gguf is cut short: it has 100 bytes, the plan states 98362432; get the whole file again");
        scene.assert_clean(&[]);
    }

    #[test]
    fn a_download_that_breaks_off_leaves_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            let _ = client.read(&mut [0; 4096]).unwrap();
            client.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nonly this").unwrap();
        });
        let scene = plan(&format!(
            "  file:\n    fetch:\n      sources: [{{url: 'http://{address}/a.txt', sha256: '0000000000000000000000000000000000000000000000000000000000000000'}}]\n"
        ));
        let ended = apply(&scene);
        assert_eq!(ended.code, Some(3), "{}", ended.stderr);
        let failures = ended.failures();
        assert!(failures.contains("no source of the file answered"), "{failures}");
        scene.assert_clean(&[]);
    }

    #[test]
    fn a_corpus_with_a_broken_line_names_the_line() {
        let scene = plan(
            "  corpus:
    pin_corpus:
      format: spec_bench
      sources: [{path: corpus.jsonl}]
      written_as: spec_bench
",
        );
        let _redacted = redacting();
        scene.write(
            "corpus.jsonl",
            "{\"question_id\": 1, \"category\": \"math\", \"turns\": [\"a\"]}\n{\"question_id\": 2,\n",
        );
        let ended = apply(&scene);
        assert_eq!(ended.code, Some(3));
        assert_snapshot!(ended.failures(), @"failed      corpus [TIME]: the corpus from the file corpus.jsonl cannot be used: line 2, column 18: the line ends in the middle of its JSON; write one JSON object a line");
        scene.assert_clean(&[]);
    }
}

mod machine {
    use super::*;

    #[test]
    fn without_python_it_is_said_what_to_install() {
        let scene = plan("  client:\n    python_env:\n      requirements: [aiperf==0.13.0]\n");
        let scene = scene.with("PATH", "/nowhere");
        let _redacted = redacting();
        let ended = apply(&scene);
        assert_eq!(ended.code, Some(3));
        assert_snapshot!(ended.failures(), @"failed      client [TIME]: Python 3.10 or newer is needed and there is no python3 on PATH; install it (Debian and Ubuntu: `apt-get install python3 python3-venv`) or put it on PATH, then run again");
        scene.assert_clean(&[]);
        assert!(support::files_below(&scene.path("store/envs")).is_empty());
    }

    #[test]
    fn a_python_that_is_too_old_is_named() {
        let scene = plan("  client:\n    python_env:\n      requirements: [aiperf==0.13.0]\n");
        let python = scene.write("bin/python3", "#!/bin/sh\necho 3.9.2 /usr/bin/python3\n");
        fs::set_permissions(&python, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let bin = scene.path("bin");
        let scene = scene.with("PATH", bin);
        let _redacted = redacting();
        let ended = apply(&scene);
        assert_eq!(ended.code, Some(3));
        assert_snapshot!(ended.failures(), @"failed      client [TIME]: Python 3.10 or newer is needed and python3 on PATH is 3.9.2; install it (Debian and Ubuntu: `apt-get install python3 python3-venv`) or put it on PATH, then run again");
        scene.assert_clean(&[]);
    }

    /// Several environments wait for the one installer, and none of them may
    /// keep the others from going on.
    #[test]
    fn many_environments_can_wait_for_the_installer_at_the_same_time() {
        let nodes = ["a", "b", "c", "d", "e", "f"];
        let nodes = nodes.map(|name| format!("  {name}:\n    python_env: {{requirements: [{name}==1]}}\n"));
        let scene = plan(&nodes.concat());
        let python = "#!/bin/sh\n\
            if [ \"$1\" = -c ]; then echo 3.12.1 \"$0\"; exit; fi\n\
            if [ \"$2\" = venv ]; then /bin/sleep 0.1; echo no ensurepip >&2; exit 1; fi\n";
        let python = scene.write("bin/python3", python);
        fs::set_permissions(&python, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let bin = scene.path("bin");
        let scene = scene.with("PATH", bin);
        let running = scene.start(&["apply", "plan.yaml", "--keep-going", "--jobs", "6"]);
        let ended = running.wait_within(LONG);
        assert_eq!(ended.code, Some(3), "{}", ended.stderr);
        assert_eq!(ended.nodes("failed").len(), 6, "{}", ended.stderr);
        assert!(ended.failures().contains("no ensurepip"), "{}", ended.stderr);
        scene.assert_clean(&[]);
    }

    #[test]
    fn the_shipped_plan_on_a_bare_machine_says_all_that_is_wrong() {
        let scene = Scene::isolated().with("PATH", "/nowhere");
        let _redacted = redacting();
        scene.write("SmolLM2.gguf", "not this");
        let model = scene.path("SmolLM2.gguf");
        scene.write("site.yaml", format!("orchestrate: 1\nvalues: {{smollm2: {}}}\n", model.display()));
        let plan = format!("{PROJECT}/plans/stage-f.yaml");
        let ended = scene.run(&["apply", &plan, "--site", "site.yaml", "--keep-going"]);
        assert_eq!(ended.code, Some(3));
        let failures = ended.failures();
        let mut failures: Vec<_> = failures.lines().collect();
        failures.sort_unstable();
        assert_snapshot!(failures.join("\n"), @"
        failed      checks[target=llama-cpp] [TIME]: Python 3.10 or newer is needed and there is no python3 on PATH; install it (Debian and Ubuntu: `apt-get install python3 python3-venv`) or put it on PATH, then run again
        failed      client [TIME]: Python 3.10 or newer is needed and there is no python3 on PATH; install it (Debian and Ubuntu: `apt-get install python3 python3-venv`) or put it on PATH, then run again
        failed      engine[target=llama-cpp] [TIME]: Python 3.10 or newer is needed and there is no python3 on PATH; install it (Debian and Ubuntu: `apt-get install python3 python3-venv`) or put it on PATH, then run again
        failed      model[target=llama-cpp] [TIME]: the file SmolLM2.gguf that the site names is cut short: it has 8 bytes, the plan states 98362432; get the whole file again
        ");
        scene.assert_nothing_runs();
        let status = scene.run(&["status", "--require", "implemented"]);
        assert_eq!(status.code, Some(1), "{}", status.stdout);
    }

    #[test]
    fn a_store_that_cannot_be_written_is_named() {
        let _redacted = redacting();
        let scene = plan("  host:\n    probe_host: {}\n");
        let scene = scene.with("ORCHESTRATE_STORE", "/proc/store");
        let ended = apply(&scene);
        assert_eq!(ended.code, Some(3));
        assert_snapshot!(ended.stderr, @"error: the store could not create /proc/store/blobs: No such file or directory (os error 2); check space and permissions there");
        scene.assert_nothing_runs();
    }

    const GPU: &str = "orchestrate: 1
target: gpu
requires: [{program: no-such-server}, {site: checkpoint}]
nodes:
  host:
    probe_host: {}
  client:
    python_env: {requirements: [aiperf==0.13.0]}
  corpus:
    pin_corpus:
      format: jsonl
      sources: [{path: '${site.checkpoint}'}]
      select: {turns: first}
      written_as: spec_bench
  bundle:
    build_bundle:
      adopt: ${site.checkpoint}
      engine: {llama_cpp: {program: no-such-server, precision: Q4_1, context_length: 2048}}
  validation:
    validate:
      bundle: ${nodes.bundle}
      checks: [{name: none, shows: nothing, command: ['true']}]
  server:
    serve: {bundle: '${nodes.bundle}', model_name: none}
  warmup:
    warmup: {server: '${nodes.server}', requests: 1}
    needs: [validation]
  load:
    aiperf:
      client: ${nodes.client}
      server: ${nodes.server}
      corpus: ${nodes.corpus}
      bundle: ${nodes.bundle}
      dataset: spec_bench
      max_tokens: 16
    needs: [warmup]
  correlation:
    correlate:
      mode: ordinary
      bundle: ${nodes.bundle}
      corpus: ${nodes.corpus}
      warmup: ${nodes.warmup}
      load: ${nodes.load}
  audit:
    audit_speculation:
      bundle: ${nodes.bundle}
      load: ${nodes.load}
      correlation: ${nodes.correlation}
";

    #[test]
    fn a_target_whose_requirement_is_missing_is_planned_unless_it_is_required() {
        let scene = Scene::isolated();
        scene.write("gpu.yaml", GPU);
        let roles = [
            "host",
            "client",
            "corpus",
            "bundle",
            "validation",
            "server",
            "warmup",
            "load",
            "correlation",
            "audit",
        ];
        let written = roles.map(|role| format!("    {role}: ${{nodes.{role}}}\n")).concat();
        scene.write(
            "plan.yaml",
            format!(
                "orchestrate: 1
name: errors
targets: [gpu.yaml]
nodes:
  matrix:
    render_matrix: {{title: Errors}}
subjects:
  ordinary:
    mode: ordinary
{written}"
            ),
        );
        let _redacted = redacting();
        let ended = apply(&scene);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let mut nodes = roles.map(|role| format!("{role}[target=gpu]"));
        nodes.sort();
        assert_eq!(ended.nodes("not-run"), nodes);
        assert!(scene.path(".orchestrate/reports/errors/coverage.md").is_file());
        let status = scene.run(&["status", "--json"]);
        assert_snapshot!(status.stdout, @r#"
        {
          "subjects": [
            {
              "subject": "errors/gpu/ordinary",
              "target": "gpu",
              "mode": "ordinary",
              "status": "planned",
              "since": "[INSTANT]",
              "evidence": [],
              "missing": [
                "target gpu needs the program no-such-server, the site value checkpoint"
              ]
            }
          ]
        }
        "#);
        let ended = scene.run(&["apply", "plan.yaml", "--require", "gpu"]);
        assert_eq!(ended.code, Some(3), "{}", ended.stderr);
        let ended = scene.run(&["apply", "plan.yaml", "--require", "cpu"]);
        assert_eq!(ended.code, Some(2));
        assert_snapshot!(ended.stderr, @"error: --require cpu: the plan's targets are gpu");
        scene.assert_nothing_runs();
    }
}

mod status {
    use super::*;

    #[test]
    fn before_any_run_there_is_nothing_and_nothing_is_made() {
        let _redacted = redacting();
        let scene = Scene::isolated();
        let status = scene.run(&["status"]);
        assert_eq!(status.code, Some(0), "{}", status.stderr);
        assert_snapshot!(status.stdout, @"No subject has a status yet; run `orchestrate apply PLAN`.");
        assert_snapshot!(scene.run(&["status", "--json"]).stdout, @r#"
        {
          "subjects": []
        }
        "#);
        let required = scene.run(&["status", "--require", "aiperf-qualified"]);
        assert_eq!(required.code, Some(1), "no subject is no qualified subject");
        scene.assert_untouched();
    }

    #[test]
    fn a_status_that_does_not_exist_is_refused() {
        let ended = Scene::isolated().run(&["status", "--require", "qualified"]);
        assert_eq!(ended.code, Some(2));
        assert!(ended.stderr.contains("aiperf-qualified"), "{}", ended.stderr);
    }
}
