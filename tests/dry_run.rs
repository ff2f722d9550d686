//! What `plan`, `explain`, `graph` and `validate` say, and that they leave no
//! trace of having been asked: the real binary, a store of its own.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use insta::assert_snapshot;
use orchestrate::state::State;
use orchestrate::value::Digest;
use serde_json::Value;
use support::schemas::assert_fits;
use support::{Scene, files_below, redacting};

/// Two files, one of them for a target that needs what no machine has.
const PLAN: &str = "orchestrate: 1
name: dry
targets: [far.yaml]
params:
  file: {default: a.txt}
nodes:
  text:
    fetch:
      sources: [{path: '${params.file}'}]
    timeout: 90s
  other:
    fetch:
      sources: [{path: b.txt}]
    needs: [text]
";
const TARGET: &str = "orchestrate: 1
target: far
requires: [{program: no-such-program}, {site: nowhere}]
nodes:
  tool:
    fetch:
      sources: [{path: a.txt}]
  bundle:
    build_bundle:
      model: '${nodes.tool}'
      engine: {llama_cpp: {precision: F16, context_length: 64}}
";

fn scene() -> Scene {
    let scene = Scene::isolated();
    scene.write("plan.yaml", PLAN);
    scene.write("far.yaml", TARGET);
    scene.write("a.txt", "a text");
    scene.write("b.txt", "another text");
    scene.write("c.txt", "a third text");
    scene
}

fn applied() -> Scene {
    let scene = scene();
    let ended = scene.run(&["apply", "plan.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    scene
}

/// What a command prints, which must end well.
fn printed(scene: &Scene, arguments: &[&str]) -> String {
    let ended = scene.run(arguments);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{arguments:?}");
    ended.stdout
}

/// The store's file of a node's first output in a forecast of it.
fn only_blob(scene: &Scene, content: &str) -> PathBuf {
    let digest = Digest::of(content).to_string();
    scene.path("store/blobs").join(&digest[..2]).join(digest)
}

mod forecasts {
    use super::*;

    #[test]
    fn before_the_first_run_everything_runs() {
        let scene = scene();
        assert_snapshot!(printed(&scene, &["plan", "plan.yaml"]), @"
        run         text   fetch  no known duration, timeout 1m30s
                    not in the store yet
        run         other  fetch  no known duration
                    not in the store yet
        not run     target far needs the program no-such-program, the site value nowhere
                    tool[target=far], bundle[target=far]
        2 would run, 0 reused, 2 not run; no last duration is known
        ");
    }

    #[test]
    fn after_a_run_everything_is_reused() {
        let scene = applied();
        let _redacted = redacting();
        assert_snapshot!(printed(&scene, &["plan", "plan.yaml"]), @"
        reuse       text   fetch  took [TIME], made [DATE]
        reuse       other  fetch  took [TIME], made [DATE]
        not run     target far needs the program no-such-program, the site value nowhere
                    tool[target=far], bundle[target=far]
        0 would run, 2 reused, 2 not run
        ");
    }

    #[test]
    fn a_changed_input_is_named() {
        let scene = applied();
        let _redacted = redacting();
        assert_snapshot!(printed(&scene, &["plan", "plan.yaml", "--set", "file=c.txt"]), @"
        run         text   fetch  about [TIME], timeout [TIME]
                    it differs from its last result
                    settings[0].content: a6cf19a371f2… → 0872b07ba158…
        reuse       other  fetch  took [TIME], made [DATE]
        not run     target far needs the program no-such-program, the site value nowhere
                    tool[target=far], bundle[target=far]
        1 would run, 1 reused, 2 not run; about [TIME] by last known durations
        ");
    }

    #[test]
    fn an_output_that_is_gone_is_named() {
        let scene = applied();
        let _redacted = redacting();
        fs::remove_file(only_blob(&scene, "a text")).unwrap();
        assert_snapshot!(printed(&scene, &["plan", "plan.yaml"]), @"
        run         text   fetch  about [TIME], timeout [TIME]
                    its result is in the store, but its output file is gone
        reuse       other  fetch  took [TIME], made [DATE]
        not run     target far needs the program no-such-program, the site value nowhere
                    tool[target=far], bundle[target=far]
        1 would run, 1 reused, 2 not run; about [TIME] by last known durations
        ");
    }

    #[test]
    fn a_forecast_fits_a_narrow_terminal() {
        let scene = applied().with("COLUMNS", "50");
        let shown = printed(&scene, &["plan", "plan.yaml"]);
        assert!(shown.lines().all(|line| line.chars().count() <= 52), "{shown}");
    }

    #[test]
    fn a_pipeline_gets_the_same_facts() {
        let scene = applied();
        let shown = printed(&scene, &["plan", "plan.yaml", "--set", "file=c.txt", "--json"]);
        let document: Value = serde_json::from_str(&shown).unwrap();
        assert_fits(&document, "output/plan.schema.json", "plan --json");
        assert_eq!(document["schema_version"], 1);
        let nodes = document["nodes"].as_array().unwrap();
        let node = |name: &str| nodes.iter().find(|node| node["node"] == name).unwrap();
        assert_eq!(node("text")["action"], "run");
        assert_eq!(node("text")["changes"][0]["path"], "settings[0].content");
        assert_eq!(node("text")["timeout_s"], 90.0);
        assert_eq!(node("other")["action"], "reuse");
        assert!(node("other")["made_at"].is_string());
        assert_eq!(node("bundle[target=far]")["action"], "not-run");
        assert_eq!(node("bundle[target=far]")["requires"][0], "the program no-such-program");
        assert_eq!(document["totals"]["run"], 1);
    }

    #[test]
    fn what_is_forecast_is_what_happens() {
        let scene = applied();
        fs::remove_file(only_blob(&scene, "a text")).unwrap();
        let shown = printed(&scene, &["plan", "plan.yaml", "--json"]);
        let document: Value = serde_json::from_str(&shown).unwrap();
        let of = |action: &str| {
            let nodes = document["nodes"].as_array().unwrap().iter();
            let mut names: Vec<_> = nodes
                .filter(|node| node["action"] == action)
                .map(|node| node["node"].as_str().unwrap())
                .collect();
            names.sort_unstable();
            names
        };
        let ended = scene.run(&["apply", "plan.yaml"]);
        for (action, outcome) in [("run", "succeeded"), ("reuse", "reused"), ("not-run", "not-run")] {
            assert_eq!(ended.nodes(outcome), of(action), "{}", ended.stderr);
        }
    }

    #[test]
    fn the_graph_shows_what_is_in_the_store() {
        let scene = applied();
        let graph = printed(&scene, &["graph", "plan.yaml", "--format", "json", "--set", "file=c.txt"]);
        let graph: Value = serde_json::from_str(&graph).unwrap();
        let nodes = graph["nodes"].as_array().unwrap();
        let cached = |name: &str| nodes.iter().find(|node| node["name"] == name).unwrap()["cached"].clone();
        assert_eq!((cached("text"), cached("other")), (false.into(), true.into()));
    }
}

mod explanations {
    use super::*;

    #[test]
    fn a_node_is_explained_with_what_changed() {
        let scene = applied();
        let _redacted = redacting();
        let shown = printed(&scene, &["explain", "plan.yaml", "text", "--set", "file=c.txt"]);
        assert_snapshot!(shown, @"
        text
          kind      fetch, timeout [TIME], took [TIME] last
          written   plan.yaml:7
          would     run: it differs from its last result
          last      [INSTANT] under the key 089569c5f801…
          changed   settings[0].content: a6cf19a371f2… → 0872b07ba158…
          inputs    none
          settings  sources:
                      - path: c.txt
          key       [DIGEST]
          digest of kind: fetch
                    version: 1
                    settings:
                      - content: [DIGEST]
                    form: 1
                    inputs: {}
        ");
    }

    #[test]
    fn a_name_stands_for_its_only_instance() {
        let scene = scene();
        let _redacted = redacting();
        assert_snapshot!(printed(&scene, &["explain", "plan.yaml", "bundle"]), @r#"
        bundle[target=far]
          kind      build_bundle
          target    far, which needs the program no-such-program and the site value nowhere
          written   far.yaml:8
          would     not run: target far needs the program no-such-program, the site value nowhere
          last      the state knows no earlier result of it
          inputs    data  tool[target=far]  not run     left nothing
          settings  engine:
                      llama_cpp:
                        program: ""
                        launcher: null
                        precision: F16
                        context_length: 64
                        slots: 1
                        threads: all_but_one
                        cache_prompt: false
                    model: ${nodes.tool[target=far]}
          key       none
        "#);
    }

    #[test]
    fn a_damaged_output_is_seen_and_left_where_it_is() {
        let scene = applied();
        let blob = only_blob(&scene, "a text");
        fs::set_permissions(&blob, fs::Permissions::from_mode(0o644)).unwrap();
        fs::write(&blob, "a lie!").unwrap();
        let shown = printed(&scene, &["explain", "plan.yaml", "text"]);
        assert!(shown.contains("damaged   its output file does not match its digest"), "{shown}");
        assert_eq!(fs::read_to_string(&blob).unwrap(), "a lie!");
    }

    #[test]
    fn a_pipeline_gets_the_key_and_its_document() {
        let scene = applied();
        let shown = printed(&scene, &["explain", "plan.yaml", "text", "--json"]);
        let document: Value = serde_json::from_str(&shown).unwrap();
        assert_fits(&document, "output/explain.schema.json", "explain --json");
        assert_eq!(document["forecast"]["key"], Digest::of_json(&document["key_document"]).to_string());
        assert_eq!(document["last"]["same"], true);
        assert_eq!(document["line"], 7);
    }

    #[test]
    fn an_unknown_node_is_an_error_with_the_nearest_names() {
        let scene = scene();
        let ended = scene.run(&["explain", "plan.yaml", "bundel"]);
        assert_eq!(ended.code, Some(2));
        assert_snapshot!(ended.stderr, @"error: the plan dry has no node bundel; near to it are bundle[target=far]");
        let ended = scene.run(&["explain", "plan.yaml", "zebra-crossing"]);
        assert_eq!(ended.code, Some(2));
        assert_snapshot!(ended.stderr, @"error: the plan dry has no node zebra-crossing; `orchestrate graph plan.yaml` shows all nodes");
    }

    #[test]
    fn a_name_of_several_instances_is_an_error_that_lists_them() {
        let scene = scene();
        scene.write("plan.yaml", PLAN.replace("[far.yaml]", "[far.yaml, near.yaml]"));
        scene.write("near.yaml", TARGET.replace("target: far", "target: near"));
        let ended = scene.run(&["explain", "plan.yaml", "tool"]);
        assert_eq!(ended.code, Some(2));
        assert_snapshot!(ended.stderr, @"error: tool has several instances: tool[target=far], tool[target=near]; name one of them");
    }
}

mod traces {
    use super::*;

    /// Commands that only look.
    const LOOKING: [&[&str]; 7] = [
        &["plan", "plan.yaml"],
        &["plan", "plan.yaml", "--remeasure", "--json"],
        &["explain", "plan.yaml", "text"],
        &["explain", "plan.yaml", "text", "--json", "--set", "file=c.txt"],
        &["graph", "plan.yaml"],
        &["validate", "plan.yaml"],
        &["status"],
    ];

    /// Everything in the scene but the output of the commands themselves:
    /// path, size, mode, time and content.
    fn listing(scene: &Scene) -> Vec<(PathBuf, u64, u32, i64, Option<Digest>)> {
        let mut found = Vec::new();
        let mut open = vec![scene.path("")];
        while let Some(path) = open.pop() {
            let metadata = fs::symlink_metadata(&path).unwrap();
            if metadata.is_dir() {
                open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            }
            let content = metadata.is_file().then(|| Digest::of_file(&path).unwrap());
            let modified = metadata.mtime() * 1_000_000_000 + metadata.mtime_nsec();
            found.push((path, metadata.size(), metadata.mode(), modified, content));
        }
        // In the directory for temporary files a copy of the state comes and goes.
        let places = [scene.path(""), scene.path("tmp")];
        let own = |path: &Path| {
            path.ends_with("stdout") || path.ends_with("stderr") || places.contains(&path.to_owned())
        };
        found.retain(|(path, ..)| !own(path));
        found.sort();
        found
    }

    fn assert_no_trace(scene: &Scene) {
        let before = listing(scene);
        for arguments in LOOKING {
            printed(scene, arguments);
            assert_eq!(listing(scene), before, "{arguments:?} left a trace");
        }
        scene.assert_nothing_runs();
    }

    #[test]
    fn where_nothing_is_there_nothing_is_made() {
        let scene = scene();
        assert_no_trace(&scene);
        scene.assert_untouched();
        assert!(!scene.path("home").exists());
    }

    #[test]
    fn a_store_and_a_state_stay_as_they_are() {
        assert_no_trace(&applied());
    }

    #[test]
    fn a_damaged_file_is_not_moved() {
        let scene = applied();
        for blob in files_below(&scene.path("store/blobs")) {
            fs::set_permissions(&blob, fs::Permissions::from_mode(0o644)).unwrap();
            fs::write(&blob, "a lie").unwrap();
        }
        assert_no_trace(&scene);
    }

    #[test]
    fn a_state_that_another_process_is_writing_is_read_and_stays_as_it_is() {
        let scene = applied();
        let writer = State::open(&scene.path(".orchestrate")).unwrap();
        writer.begin_run("r2", "dry", "2026-11-30T00:00:00Z").unwrap();
        assert!(scene.path(".orchestrate/state.db-wal").metadata().unwrap().len() > 0);
        assert_no_trace(&scene);
    }
}
