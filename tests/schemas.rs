//! The committed JSON Schemas are those of the types, and what is shipped and
//! what a run leaves fits them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "support/double.rs"]
mod double;
mod support;

use std::fs;
use std::path::Path;

use orchestrate::node::CATALOGUE;
use serde_json::Value;
use support::schemas::{assert_evidence_fits, assert_fits, validator};
use support::{PROJECT, Scene, files_below};

/// The shipped YAML files directly in a folder of `plans/`.
fn shipped(folder: &str) -> Vec<(String, Value)> {
    let folder = Path::new(PROJECT).join("plans").join(folder);
    let files = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let yaml = files.filter(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    let read = |path: std::path::PathBuf| {
        let document = serde_saphyr::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        (path.display().to_string(), document)
    };
    let found: Vec<_> = yaml.map(read).collect();
    assert!(!found.is_empty(), "{} holds no YAML file", folder.display());
    found
}

#[test]
fn the_committed_schemas_and_reference_are_those_of_the_types() {
    let checked = Scene::isolated().run(&["schema", PROJECT, "--check"]);
    assert_eq!((checked.code, checked.stdout.as_str()), (Some(0), ""), "{}", checked.stderr);
}

#[test]
fn a_generated_file_that_is_missing_or_edited_is_named() {
    let scene = Scene::isolated();
    assert_eq!(scene.run(&["schema"]).code, Some(0));
    fs::remove_file(scene.path("schemas/site.schema.json")).unwrap();
    scene.write("schemas/evidence/fetch.schema.json", "{}\n");
    scene.write("plans/README.md", "mine\n");
    let checked = scene.run(&["schema", "--check"]);
    assert_eq!(checked.code, Some(1));
    insta::assert_snapshot!(checked.stdout, @"
    differs from the types: schemas/site.schema.json
    differs from the types: schemas/evidence/fetch.schema.json
    differs from the types: plans/README.md
    ");
    insta::assert_snapshot!(checked.stderr, @"error: generated files differ from the types; run `orchestrate schema` and commit them");
    assert!(!scene.path("schemas/site.schema.json").exists(), "--check wrote a file");
}

#[test]
fn every_schema_is_one_that_a_validator_accepts() {
    let root = Path::new(PROJECT).join("schemas");
    let schemas = files_below(&root);
    assert_eq!(schemas.len(), 9 + orchestrate::node::KINDS.len());
    for path in schemas {
        let name = path.strip_prefix(&root).unwrap().to_str().unwrap();
        // Anything is no document of ours, so a schema that takes it says nothing.
        assert!(!validator(name).is_valid(&Value::from("anything")), "{name}");
    }
}

#[test]
fn the_shipped_files_fit_their_schemas() {
    for (folder, schema) in [
        ("", "plan.schema.json"),
        ("targets", "target.schema.json"),
        ("corpora", "fragment.schema.json"),
        ("sites", "site.schema.json"),
    ] {
        for (path, document) in shipped(folder) {
            assert_fits(&document, schema, &path);
        }
    }
}

#[test]
fn a_mistake_in_a_plan_does_not_fit_the_schema() {
    let validator = validator("plan.schema.json");
    let plan = |nodes: Value| serde_json::json!({"orchestrate": 1, "name": "p", "nodes": nodes});
    assert!(validator.is_valid(&plan(serde_json::json!({"host": {"probe_host": {}}}))));
    for wrong in [
        serde_json::json!({"host": {"probe_hosts": {}}}),
        serde_json::json!({"host": {"probe_host": {}, "fetch": {"sources": []}}}),
        serde_json::json!({"host": {"needs": []}}),
        serde_json::json!({"host": {"probe_host": {"deep": true}}}),
        serde_json::json!({"file": {"fetch": {"sources": "a.txt"}}}),
    ] {
        assert!(!validator.is_valid(&plan(wrong.clone())), "{wrong}");
    }
}

/// Every property in a schema without a description, by its path.
fn undescribed(schema: &Value, at: &str, found: &mut Vec<String>) {
    for (name, inner) in schema.as_object().into_iter().flatten() {
        let at = format!("{at}/{name}");
        if name == "properties" {
            for (property, inner) in inner.as_object().unwrap() {
                let description = inner["description"].as_str().unwrap_or_default();
                if description.len() < 3 || inner["title"] != property.as_str() {
                    found.push(format!("{at}/{property}"));
                }
            }
        }
        undescribed(inner, &at, found);
    }
    for (number, inner) in schema.as_array().into_iter().flatten().enumerate() {
        undescribed(inner, &format!("{at}/{number}"), found);
    }
}

#[test]
fn every_property_of_what_authors_write_is_described() {
    for name in ["plan", "target", "fragment", "site"] {
        let path = Path::new(PROJECT).join(format!("schemas/{name}.schema.json"));
        let schema: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        let mut found = Vec::new();
        undescribed(&schema, name, &mut found);
        assert_eq!(found, Vec::<String>::new());
    }
}

#[test]
fn the_examples_of_the_reference_are_one_plan() {
    let nodes: Vec<_> = CATALOGUE.iter().flat_map(|kind| kind.example.lines()).collect();
    let plan = format!("orchestrate: 1\nname: examples\nnodes:\n  {}\n", nodes.join("\n  "));
    assert_fits(&serde_saphyr::from_str(&plan).unwrap(), "plan.schema.json", "the plan of the examples");
    let scene = Scene::isolated();
    scene.write("plan.yaml", plan);
    let checked = scene.run(&["validate", "plan.yaml"]);
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
}

#[test]
fn the_first_plan_of_the_reference_is_a_plan() {
    let plans = Path::new(PROJECT).join("plans");
    let reference = fs::read_to_string(plans.join("README.md")).unwrap();
    let plan = reference.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    assert_fits(&serde_saphyr::from_str(plan).unwrap(), "plan.schema.json", "the first plan");
    let scene = Scene::isolated();
    scene.write("plans/smoke.yaml", plan);
    std::os::unix::fs::symlink(plans.join("targets"), scene.path("plans/targets")).unwrap();
    let checked = scene.run(&["validate", "plans/smoke.yaml"]);
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
}

#[test]
fn the_evidence_of_a_run_fits_its_schemas() {
    let scene = Scene::isolated();
    double::write_plan(&scene, "good", "");
    let corpus = r#"{"question_id": 1, "category": "math", "turns": ["What is one and one?"]}"#;
    scene.write("corpus.jsonl", corpus);
    let mut plan = fs::read_to_string(scene.path("plan.yaml")).unwrap();
    plan.push_str(
        "
  host:
    probe_host: {}
  corpus:
    pin_corpus:
      format: spec_bench
      sources: [{path: corpus.jsonl}]
      written_as: spec_bench
      context: {bundle: '${nodes.bundle}', reserved_output_tokens: 8}
  validate:
    validate:
      bundle: ${nodes.bundle}
      checks: [{name: nothing, shows: that a check can pass, command: [echo, '{\"passed\": true, \"detail\": {\"n\": 1}}']}]
  matrix:
    render_matrix: {title: Double}
",
    );
    scene.write("plan.yaml", plan);
    let ended = scene.run(&["apply", "plan.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let mut seen = Vec::new();
    for (node, kind, document) in scene.evidence() {
        assert_evidence_fits(&document, &kind, &node);
        seen.push(kind);
    }
    seen.sort();
    let expected =
        ["build_bundle", "fetch", "pin_corpus", "probe_host", "render_matrix", "serve", "validate", "warmup"];
    assert_eq!(seen, expected);
    scene.assert_nothing_runs();
}
