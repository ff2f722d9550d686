//! What `gc` removes and what it keeps, and what `store stats` counts.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "support/files.rs"]
mod files;
mod support;

use std::fs;

use files::{LARGE, PLAN, applied, apply, assert_ok, assert_whole, blob, json, scene};
use insta::assert_snapshot;
use orchestrate::store::Store;
use serde_json::Value;
use support::{Scene, files_below, redacting};

/// Hides sizes, which differ from file system to file system.
fn without_sizes(shown: &str, assert: impl FnOnce(&str)) {
    let _redacted = redacting();
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"\b[\d.]+([KMGT]i)?B\b", "[SIZE]");
    settings.bind(|| assert(shown));
}

/// A scene in which `small.txt` had three contents, each applied once.
fn thrice() -> Scene {
    let scene = scene();
    for text in ["first", "second", "third"] {
        scene.write("small.txt", text);
        assert_ok(&apply(&scene));
    }
    scene
}

/// The runs, the oldest first.
fn runs(scene: &Scene) -> Vec<String> {
    let mut runs = scene.state().latest_runs(u32::MAX).unwrap();
    runs.reverse();
    runs
}

#[test]
fn what_only_older_runs_used_goes_and_the_latest_run_is_reused() {
    let scene = thrice();
    let arguments = ["gc", "--older-than", "0s", "--keep-latest", "1"];
    let asked = scene.run(&[&arguments[..], &["--dry-run", "--json"]].concat());
    assert_ok(&asked);
    assert_eq!(json(&asked, "gc")["removed"]["results"]["count"], 2);
    assert!(blob(&scene, "first").exists(), "a dry run removed something");
    let ended = scene.run(&arguments);
    assert_ok(&ended);
    without_sizes(&ended.stdout, |shown| {
        assert_snapshot!(shown, @"
    results            2  [SIZE]
    blobs              4  [SIZE]
    [SIZE] freed, [SIZE] in use
    ");
    });
    assert!(!blob(&scene, "first").exists() && blob(&scene, "third").exists());
    let ended = apply(&scene);
    assert_eq!(ended.nodes("reused").len(), 2, "{}", ended.stderr);
    assert_whole(&scene);
}

#[test]
fn three_runs_of_each_plan_stay_by_themselves_and_a_named_run_stays() {
    let scene = thrice();
    assert_ok(&scene.run(&["gc", "--older-than", "0s"]));
    assert!(blob(&scene, "first").exists());
    let first = runs(&scene).remove(0);
    assert_ok(&scene.run(&["gc", "--max-size", "0B", "--keep-latest", "1", "--keep-run", &first]));
    assert!(blob(&scene, "first").exists() && !blob(&scene, "second").exists());
    let ended = scene.run(&["gc", "--keep-run", "no-such-run"]);
    assert_eq!(ended.code, Some(2));
    assert_snapshot!(ended.stderr, @"error: nothing was removed: no project of this store has a run no-such-run; `orchestrate store stats` lists the projects");
    assert_whole(&scene);
}

#[test]
fn a_project_whose_directory_is_gone_keeps_nothing_and_another_keeps_its_own() {
    let scene = applied();
    let other = Scene::isolated().with("ORCHESTRATE_STORE", scene.path("store"));
    other.write("plan.yaml", PLAN);
    other.write("small.txt", "of the other");
    other.write("large.bin", vec![7; LARGE]);
    assert_ok(&apply(&other));
    fs::remove_dir_all(other.path(".orchestrate")).unwrap();
    assert_ok(&scene.run(&["gc", "--older-than", "0s"]));
    assert!(!blob(&scene, "of the other").exists());
    assert!(blob(&scene, "a text").exists() && blob(&scene, vec![7; LARGE]).exists());
    let stats = json(&scene.run(&["store", "stats", "--json"]), "store-stats");
    let known: Vec<_> =
        stats["projects"].as_array().unwrap().iter().map(|project| project["exists"].clone()).collect();
    assert_eq!(known.len(), 2);
    assert!(known.contains(&Value::Bool(false)));
    assert_whole(&scene);
}

#[test]
fn a_state_that_cannot_be_read_stops_everything_before_anything_is_removed() {
    let scene = thrice();
    let before = files_below(&scene.path("store/blobs"));
    fs::write(scene.path(".orchestrate/state.db"), vec![b'x'; 8192]).unwrap();
    let ended = scene.run(&["gc", "--max-size", "0B"]);
    assert_eq!(ended.code, Some(3));
    let _redacted = redacting();
    assert_snapshot!(ended.stderr, @"error: nothing was removed: what the project in [DIR]/.orchestrate needs is not known, because the state database [DIR]/.orchestrate/state.db is damaged: file is not a database; it holds the history of runs and where each subject stands, while all results are safe in the store: move it away (`mv [DIR]/.orchestrate/state.db [DIR]/.orchestrate/state.db.damaged`), and the next `orchestrate apply` reuses the results and finds out again where each subject stands");
    assert_eq!(files_below(&scene.path("store/blobs")), before);
}

#[test]
fn a_store_is_counted_and_one_that_is_not_there_is_empty() {
    let scene = applied();
    let ended = scene.run(&["store", "stats"]);
    assert_ok(&ended);
    without_sizes(&ended.stdout, |shown| {
        assert_snapshot!(shown, @"
    store         [DIR]/store
    blobs              4  [SIZE]
    results            2  [SIZE]
    environments       0  [SIZE]
    aside              0  [SIZE]
    temporary          0  [SIZE]
    together              [SIZE]
    results from  [INSTANT] to [INSTANT]
    project       [DIR]/.orchestrate
    ");
    });
    let nowhere = Scene::isolated();
    for arguments in [&["store", "stats"][..], &["store", "verify"], &["gc"], &["gc", "--dry-run"]] {
        assert_ok(&nowhere.run(arguments));
    }
    nowhere.assert_untouched();
}

#[test]
fn a_size_without_a_unit_is_refused_with_what_to_write() {
    let ended = Scene::isolated().run(&["gc", "--max-size", "20"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("such as 20GiB"), "{}", ended.stderr);
}

/// Held by a test of its own process, as a run of another project would.
#[test]
fn a_store_that_is_held_from_a_library_is_in_use_for_the_command() {
    let scene = applied();
    let store = Store::open(&scene.path("store")).unwrap();
    let held = store.hold().unwrap();
    assert_eq!(scene.run(&["gc"]).code, Some(1));
    drop(held);
    assert_ok(&scene.run(&["gc"]));
}
