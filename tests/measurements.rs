//! Every measurement under a key is kept, and the report says which one it
//! shows, so that nobody picks the best one unseen. The real binary.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "support/double.rs"]
mod double;
mod support;

use std::fs;

use serde_json::{Value, json};
use support::{PROJECT, Scene};

/// A target whose server is the double and whose load has no corpus: what can
/// be measured of it is its host and its warmup.
fn write_target(scene: &Scene) {
    scene.write("tiny.gguf", double::model());
    scene.write(
        "target.yaml",
        format!(
            "orchestrate: 1
target: double
nodes:
  host:
    probe_host: {{}}
  corpus:
    pin_corpus:
      format: jsonl
      sources: [{{path: no-such-corpus.jsonl}}]
      select: {{turns: first}}
      written_as: spec_bench
  client:
    python_env: {{requirements: [aiperf==0.13.0]}}
    needs: [corpus]
  model:
    fetch:
      sources: [{{path: tiny.gguf}}]
  bundle:
    build_bundle:
      model: ${{nodes.model}}
      engine:
        llama_cpp: {{program: {PROJECT}/tests/doubles/llama_server.py, precision: Q4_1, context_length: 64}}
  validation:
    validate:
      bundle: ${{nodes.bundle}}
      checks: [{{name: none, shows: nothing, command: [echo, '{{\"passed\": true, \"detail\": {{}}}}']}}]
  server:
    serve: {{bundle: '${{nodes.bundle}}', model_name: good}}
  warmup:
    warmup: {{server: '${{nodes.server}}', requests: 1}}
    needs: [validation]
  load:
    aiperf:
      client: ${{nodes.client}}
      server: ${{nodes.server}}
      corpus: ${{nodes.corpus}}
      bundle: ${{nodes.bundle}}
      dataset: spec_bench
      max_tokens: 16
    needs: [warmup]
  correlation:
    correlate:
      mode: ordinary
      bundle: ${{nodes.bundle}}
      corpus: ${{nodes.corpus}}
      warmup: ${{nodes.warmup}}
      load: ${{nodes.load}}
  audit:
    audit_speculation:
      bundle: ${{nodes.bundle}}
      load: ${{nodes.load}}
      correlation: ${{nodes.correlation}}
"
        ),
    );
}

fn scene() -> Scene {
    let scene = Scene::isolated();
    write_target(&scene);
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
    let roles = roles.map(|role| format!("    {role}: ${{nodes.{role}}}\n")).concat();
    scene.write(
        "plan.yaml",
        format!(
            "orchestrate: 1
name: measured
targets: [target.yaml]
nodes:
  matrix:
    render_matrix: {{title: Measured}}
subjects:
  ordinary:
    mode: ordinary
{roles}"
        ),
    );
    scene
}

fn report(scene: &Scene, name: &str) -> String {
    fs::read_to_string(scene.path(".orchestrate/reports/measured").join(name)).unwrap()
}

/// Role, number and count of every measurement that the report shows.
fn shown(scene: &Scene) -> Value {
    let matrix: Value = serde_json::from_str(&report(scene, "coverage.json")).unwrap();
    let measurements = matrix["rows"][0]["measurements"].as_array().unwrap().iter();
    measurements.map(|shown| json!([shown["role"], shown["attempt"], shown["of"]])).collect()
}

#[test]
fn the_report_says_which_of_several_measurements_it_shows() {
    let scene = scene();
    let ended = scene.run(&["apply", "plan.yaml", "--keep-going"]);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    assert_eq!(shown(&scene), json!([["host", 1, 1], ["warmup", 1, 1]]), "{}", ended.stderr);
    assert!(!report(&scene, "coverage.md").contains("measurement "));
    scene.run(&["apply", "plan.yaml", "--keep-going", "--remeasure"]);
    for reused in [false, true] {
        assert_eq!(shown(&scene), json!([["host", 2, 2], ["warmup", 2, 2]]), "reused: {reused}");
        let page = report(&scene, "coverage.md");
        assert!(page.contains(r"- warmup (warmup\[target=double\]): measurement 2 of 2 is shown"), "{page}");
        assert!(report(&scene, "coverage.html").contains("measurement 2 of 2 is shown"));
        let table = report(&scene, "coverage.csv");
        let line = table.lines().find(|line| line.contains(",warmup,")).unwrap();
        assert!(line.contains("measurement 2 of 2 under its key"), "{line}");
        fs::remove_dir_all(scene.path(".orchestrate/reports")).unwrap();
        scene.run(&["apply", "plan.yaml", "--keep-going"]);
    }
    scene.assert_nothing_runs();
}
