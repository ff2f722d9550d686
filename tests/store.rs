//! The store as a user meets it: full, read-only, damaged, shared, elsewhere.
//! The real binary in real processes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "support/apart.rs"]
mod apart;
#[path = "support/double.rs"]
mod double;
#[path = "support/files.rs"]
mod files;
mod support;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use files::{LARGE, applied, apply, assert_ok, assert_whole, blob, json, scene};
use insta::assert_snapshot;
use orchestrate::value::Digest;
use support::{PROJECT, Scene, files_below, redacting, signal, wait_for};

const LONG: Duration = Duration::from_secs(30);

/// Changes a stored file by hand.
fn overwrite(path: &Path, content: impl AsRef<[u8]>) {
    fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
    fs::write(path, content).unwrap();
}

mod full_disks {
    use super::*;

    #[test]
    fn a_full_disk_in_the_middle_of_a_store_write_is_named_and_the_same_command_succeeds_with_more_space() {
        if !apart::with_mounts(
            "full_disks::a_full_disk_in_the_middle_of_a_store_write_is_named_and_the_same_command_succeeds_with_more_space",
        ) {
            return;
        }
        let scene = scene();
        apart::mount(&scene.path("store"), "4m");
        let ballast = scene.write("store/ballast", vec![0; LARGE]);
        let ended = apply(&scene);
        assert_eq!(ended.code, Some(3), "{}", ended.stderr);
        {
            let _redacted = redacting();
            let shown = ended.failures();
            let mut settings = insta::Settings::clone_current();
            settings.add_filter(r"[\d.]+KiB free", "[SIZE] free");
            settings.bind(|| assert_snapshot!(shown, @"failed      large [TIME]: the file system at [DIR]/store is full: [DIR]/large.bin does not fit, [SIZE] free, 3MiB needed; make space there (`orchestrate gc` removes from the store what nothing needs) or set ORCHESTRATE_STORE to a directory on another file system, and run the same command again"));
        }
        assert_eq!(scene.stored_kinds(), ["fetch"]);
        assert!(!blob(&scene, vec![7; LARGE]).exists());
        assert_whole(&scene);
        fs::remove_file(ballast).unwrap();
        let ended = apply(&scene);
        assert_ok(&ended);
        assert_eq!((ended.nodes("reused"), ended.nodes("succeeded")), (vec!["small"], vec!["large"]));
        assert_whole(&scene);
    }

    #[test]
    fn a_store_that_can_hold_no_more_files_says_so() {
        if !apart::with_mounts("full_disks::a_store_that_can_hold_no_more_files_says_so") {
            return;
        }
        let scene = scene();
        apart::mount(&scene.path("store"), "16m,nr_inodes=8");
        let ended = apply(&scene);
        assert_eq!(ended.code, Some(3), "{}", ended.stderr);
        assert!(ended.stderr.contains("it can hold no more files"), "{}", ended.stderr);
    }
}

mod other_places {
    use super::*;

    #[test]
    fn a_store_on_another_file_system_than_the_work_is_used_like_any() {
        if !apart::with_mounts("other_places::a_store_on_another_file_system_than_the_work_is_used_like_any")
        {
            return;
        }
        let scene = scene();
        apart::mount(&scene.path("store"), "16m");
        assert_ok(&apply(&scene));
        assert_whole(&scene);
        let store = scene.store();
        let ours = scene.write("ours", vec![8; 1 << 20]);
        let digest = store.take_file(&ours).unwrap();
        let to = scene.path("there/ours");
        store.materialise(digest, &to).unwrap();
        assert_eq!(fs::read(&to).unwrap(), vec![8; 1 << 20]);
        let tree = store.put_tree(&scene.path("there")).unwrap();
        store.materialise_tree(tree, &scene.path("again")).unwrap();
        assert_eq!(fs::read(scene.path("again/ours")).unwrap(), vec![8; 1 << 20]);
    }

    #[test]
    fn a_store_that_is_mounted_read_only_is_reused_and_says_why_nothing_new_goes_into_it() {
        if !apart::with_mounts(
            "other_places::a_store_that_is_mounted_read_only_is_reused_and_says_why_nothing_new_goes_into_it",
        ) {
            return;
        }
        let scene = scene();
        apart::mount(&scene.path("store"), "16m");
        assert_ok(&apply(&scene));
        apart::make_read_only(&scene.path("store"));
        let ended = apply(&scene);
        assert_ok(&ended);
        assert_eq!(ended.nodes("reused").len(), 2, "{}", ended.stderr);
        assert_ok(&scene.run(&["store", "verify"]));
        scene.write("small.txt", "another text");
        let ended = apply(&scene);
        assert_eq!(ended.code, Some(3), "{}", ended.stderr);
        let _redacted = redacting();
        assert_snapshot!(ended.failures(), @"failed      small [TIME]: the store could not write in [DIR]/store/tmp: read-only filesystem or storage medium; check space and permissions there");
    }

    #[test]
    fn a_store_without_permission_is_reused_and_says_why_nothing_new_goes_into_it() {
        if !apart::with_permissions(
            "other_places::a_store_without_permission_is_reused_and_says_why_nothing_new_goes_into_it",
        ) {
            return;
        }
        let scene = applied();
        let tmp = scene.path("store/tmp");
        fs::set_permissions(&tmp, Permissions::from_mode(0o555)).unwrap();
        let ended = apply(&scene);
        assert_ok(&ended);
        assert_eq!(ended.nodes("reused").len(), 2, "{}", ended.stderr);
        scene.write("small.txt", "another text");
        let ended = apply(&scene);
        assert_eq!(ended.code, Some(3), "{}", ended.stderr);
        {
            let _redacted = redacting();
            assert_snapshot!(ended.failures(), @"failed      small [TIME]: the store could not write in [DIR]/store/tmp: permission denied; check space and permissions there");
        }
        fs::set_permissions(&tmp, Permissions::from_mode(0o755)).unwrap();
        assert_ok(&apply(&scene));
    }

    #[test]
    fn a_stored_file_that_may_not_be_read_is_named_with_the_reason() {
        if !apart::with_permissions(
            "other_places::a_stored_file_that_may_not_be_read_is_named_with_the_reason",
        ) {
            return;
        }
        let scene = applied();
        let small = blob(&scene, "a text");
        fs::set_permissions(&small, Permissions::from_mode(0o000)).unwrap();
        let ended = scene.run(&["store", "verify"]);
        assert_eq!(ended.code, Some(1), "{}", ended.stdout);
        {
            let _redacted = redacting();
            let shown = ended.stdout.lines().next().unwrap();
            let shown = shown.replace(&small.display().to_string(), "[BLOB]");
            assert_snapshot!(shown, @"unreadable  the store could not read [BLOB]: Permission denied (os error 13); check space and permissions there");
        }
        fs::set_permissions(&small, Permissions::from_mode(0o444)).unwrap();
        assert_whole(&scene);
    }
}

mod damage {
    use super::*;

    #[test]
    fn a_file_that_was_changed_by_hand_is_set_aside_and_made_again() {
        let scene = applied();
        overwrite(&blob(&scene, "a text"), "a lie!");
        let ended = scene.run(&["store", "verify"]);
        assert_eq!(ended.code, Some(1));
        {
            let _redacted = redacting();
            let mut settings = insta::Settings::clone_current();
            settings.add_filter(r"\b[0-9a-f]{12}\b", "[SHORT]");
            settings.bind(|| {
                assert_snapshot!(ended.stdout, @"
        damaged     [DIGEST]
        lost        the result [DIGEST] of a fetch node names [SHORT]
        4 blobs and 2 results were read
        the next `orchestrate apply` makes again what was lost
        ");
            });
        }
        let aside = scene.path("store/aside").join(Digest::of("a text").to_string());
        assert_eq!(fs::read(aside).unwrap(), b"a lie!");
        let ended = apply(&scene);
        assert_ok(&ended);
        assert_eq!(ended.nodes("succeeded"), ["small"], "{}", ended.stderr);
        assert_whole(&scene);
    }

    #[test]
    fn a_file_that_was_cut_short_is_found_and_made_again() {
        let scene = applied();
        overwrite(&blob(&scene, vec![7; LARGE]), vec![7; LARGE - 1]);
        let ended = scene.run(&["store", "verify", "--json"]);
        assert_eq!(ended.code, Some(1));
        let report = json(&ended, "store-verify");
        assert_eq!(report["damaged"], serde_json::json!([Digest::of(vec![7; LARGE])]));
        assert_eq!(report["lost"][0]["kind"], "fetch");
        assert_ok(&apply(&scene));
        assert_whole(&scene);
    }

    #[test]
    fn a_result_that_was_cut_short_is_found_and_made_again() {
        let scene = applied();
        let result = files_below(&scene.path("store/results")).remove(0);
        let text = fs::read(&result).unwrap();
        fs::write(&result, &text[..text.len() / 2]).unwrap();
        let ended = scene.run(&["store", "verify"]);
        assert_eq!(ended.code, Some(1));
        assert!(ended.stdout.contains("is no result that this version can read"), "{}", ended.stdout);
        assert_ok(&apply(&scene));
        assert_whole(&scene);
    }

    #[test]
    fn a_change_of_line_endings_is_other_content() {
        let scene = scene();
        scene.write("small.txt", "one\ntwo\n");
        assert_ok(&apply(&scene));
        scene.write("small.txt", "one\r\ntwo\r\n");
        let ended = apply(&scene);
        assert_ok(&ended);
        assert_eq!(ended.nodes("succeeded"), ["small"]);
        assert_eq!(fs::read(blob(&scene, "one\r\ntwo\r\n")).unwrap(), b"one\r\ntwo\r\n");
    }

    #[test]
    fn an_empty_output_is_a_failure_and_no_later_hit() {
        let scene = scene();
        scene.write("small.txt", "");
        for _ in 0..2 {
            let ended = apply(&scene);
            assert_eq!(ended.code, Some(1), "{}", ended.stderr);
            assert!(ended.failures().contains("is empty"), "{}", ended.stderr);
            assert_eq!(scene.stored_kinds(), [""; 0]);
        }
    }

    #[test]
    fn the_times_of_stored_files_decide_nothing() {
        let scene = applied();
        for path in files_below(&scene.path("store")) {
            let file = fs::File::open(&path).unwrap();
            file.set_modified(std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(9_999_999_999))
                .unwrap();
        }
        let ended = apply(&scene);
        assert_ok(&ended);
        assert_eq!(ended.nodes("reused").len(), 2, "{}", ended.stderr);
        assert_whole(&scene);
    }
}

mod sharing {
    use super::*;

    #[test]
    fn processes_that_write_the_same_content_at_the_same_time_all_succeed() {
        let first = scene();
        let content = vec![9; 32 << 20];
        let scenes: Vec<Scene> =
            (0..4).map(|_| scene().with("ORCHESTRATE_STORE", first.path("store"))).collect();
        for scene in &scenes {
            scene.write("large.bin", &content);
        }
        let running: Vec<_> = scenes.iter().map(|scene| scene.start(&["apply", "plan.yaml"])).collect();
        for run in running {
            assert_ok(&run.wait());
        }
        // Two files and the evidence of each.
        assert_eq!(files_below(&first.path("store/blobs")).len(), 4);
        assert!(blob(&first, &content).is_file());
        assert_whole(&first);
        assert_eq!(first.store().projects().unwrap().len(), 4);
    }

    /// A plan whose node goes on until the file `go` is there.
    fn slow_scene() -> Scene {
        let scene = scene();
        double::write_plan(&scene, "good", "");
        let text = fs::read_to_string(scene.path("plan.yaml")).unwrap();
        let (before, rest) = text.split_once("      model: ${nodes.model}\n").unwrap();
        let (engine, _) = rest.split_once("  server:\n").unwrap();
        let dir = scene.path("").display().to_string();
        let dir = dir.trim_end_matches('/');
        let script = format!(
            "touch {dir}/started; while [ ! -e {dir}/go ]; do sleep 0.01; done; cp {dir}/tiny.gguf out"
        );
        let build = format!("      build: {{command: [sh, -c, '{script}'], output: out}}\n");
        scene.write("plan.yaml", format!("{before}{build}{engine}"));
        scene
    }

    #[test]
    fn nothing_is_removed_while_an_apply_uses_the_store() {
        let scene = slow_scene();
        let running = scene.start(&["apply", "plan.yaml"]);
        let shown = || running.stderr();
        wait_for("the builder", LONG, || {
            assert!(!shown().contains("failed"), "{}", shown());
            scene.path("started").exists().then_some(())
        });
        let beside = Scene::isolated().with("ORCHESTRATE_STORE", scene.path("store"));
        let ended = beside.run(&["gc"]);
        assert_eq!(ended.code, Some(1));
        {
            let _redacted = redacting();
            assert_snapshot!(ended.stderr, @"error: an apply uses the store in [DIR]/store, and nothing is removed meanwhile; try again when it has ended, or wait for it with --wait");
        }
        assert_ok(&beside.run(&["gc", "--dry-run"]));
        let waiting = beside.start(&["gc", "--wait", "--older-than", "0s"]);
        scene.write("go", "");
        assert_ok(&running.wait_within(LONG));
        assert_ok(&waiting.wait_within(LONG));
        assert_whole(&scene);
        let ended = apply(&scene);
        assert_ok(&ended);
        assert_eq!(ended.nodes("reused").len(), 2, "what the latest run used was removed: {}", ended.stderr);
    }

    /// Ended in the middle of a write, or at another moment: the assertions
    /// hold for each.
    fn ended_while_writing(how: rustix::process::Signal) {
        let scene = scene();
        scene.write("large.bin", vec![5; 64 << 20]);
        let running = scene.start(&["apply", "plan.yaml"]);
        wait_for("the write", LONG, || {
            let lengths = files_below(&scene.path("store/tmp")).into_iter();
            lengths.filter_map(|path| path.metadata().ok()).find(|found| found.len() > 1 << 20)
        });
        let pid = running.pid();
        signal(pid, how);
        let _ = running.wait_within(LONG);
        // No result names what is not there.
        assert_ok(&scene.run(&["store", "verify"]));
        assert_ok(&apply(&scene));
        assert_whole(&scene);
    }

    #[test]
    fn ctrl_c_during_a_write_leaves_no_broken_file_and_no_lock() {
        ended_while_writing(rustix::process::Signal::INT);
    }

    #[test]
    fn a_result_is_recorded_only_after_everything_it_names_is_complete() {
        ended_while_writing(rustix::process::Signal::KILL);
    }
}
