//! What a site file gives is used and never published: the real binary.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs;
use std::path::Path;

use support::Scene;

const PLAN: &str = "\
orchestrate: 1
name: private
nodes:
  there:
    fetch: {sources: [{path: '${site.data}', sha256: '${site.sha256}'}]}
  gone:
    fetch: {sources: [{path: '${site.home}/of-${site.machine}', sha256: '${site.sha256}'}]}
";

#[test]
fn no_value_of_the_site_is_in_evidence_state_or_results() {
    let scene = Scene::isolated();
    scene.write("plan.yaml", PLAN);
    let data = scene.write("home-of-alice/data", "rows");
    let sha256 = sha256_of(&data);
    let home = scene.path("home-of-alice");
    scene.write(
        "site.yaml",
        format!(
            "orchestrate: 1\nvalues:\n  data: {}\n  home: {}\n  machine: gpu-node-17\n  sha256: {sha256}\n",
            data.display(),
            home.display()
        ),
    );
    let ended = scene.run(&["apply", "plan.yaml", "--site", "site.yaml", "--keep-going"]);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    let records = scene.records();
    assert_eq!(records.iter().filter(|row| row.outcome == "succeeded").count(), 1, "{}", ended.stderr);
    let evidence = scene.evidence().into_iter().map(|(_, _, evidence)| evidence.to_string());
    let rows = records.iter().map(|row| format!("{row:?}"));
    let results =
        files_below(&scene.path("store/results")).into_iter().map(|file| fs::read_to_string(file).unwrap());
    let seen: String = evidence.chain(rows).chain(results).collect();
    assert!(seen.contains(&sha256), "a digest is what evidence is made of: {seen}");
    for private in ["home-of-alice", "gpu-node-17", home.to_str().unwrap()] {
        assert!(!seen.contains(private), "{private} is in {seen}");
    }
}

#[test]
fn the_same_site_value_serves_as_number_and_as_text() {
    let scene = Scene::isolated();
    scene.write(
        "plan.yaml",
        "orchestrate: 1\nname: typed\nnodes:\n  file:\n    fetch: {sources: [{path: 'rows-${site.rows}', \
         bytes: '${site.rows}'}]}\n",
    );
    scene.write("rows-4", "rows");
    scene.write("site.yaml", "orchestrate: 1\nvalues: {rows: 4}\n");
    let ended = scene.run(&["apply", "plan.yaml", "--site", "site.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

fn sha256_of(path: &Path) -> String {
    orchestrate::value::Sha256::of_file(path).unwrap().to_string()
}

fn files_below(directory: &Path) -> Vec<std::path::PathBuf> {
    let mut open = vec![directory.to_owned()];
    let mut files = Vec::new();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            files.push(path);
        }
    }
    files
}
