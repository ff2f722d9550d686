//! The project's state seen from outside: damaged, of an earlier version, and
//! read while a run goes on.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "support/small.rs"]
mod small;
mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use insta::assert_snapshot;
use orchestrate::state::{NodeRow, State, StateError};
use rustix::process::Signal;
use small::{PLAN, applied, at_work, beside, scene};
use support::{Scene, files_below, signal};

/// What happened to others: the hazards of cache and state.
mod hazards {
    use super::*;

    #[test]
    fn the_orchestrator_was_killed_and_steps_that_had_ended_well_do_not_run_again() {
        let scene = scene();
        let running = at_work(&scene);
        signal(running.pid(), Signal::KILL);
        running.wait();
        scene.await_nothing_runs();
        scene.write("go", "");
        let ended = scene.run(&["apply", "plan.yaml"]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert_eq!((ended.nodes("reused"), ended.nodes("succeeded")), (vec!["quick"], vec!["slow"]));
    }

    #[test]
    fn commands_that_only_look_do_not_make_a_changed_input_count_as_done() {
        let scene = applied();
        scene.write("plan.yaml", PLAN.replace("echo quick", "echo changed"));
        for looking in [&["status"][..], &["plan", "plan.yaml"], &["explain", "plan.yaml", "quick"]] {
            assert_eq!(scene.run(looking).code, Some(0));
        }
        let ended = scene.run(&["apply", "plan.yaml"]);
        assert_eq!(ended.nodes("succeeded"), ["quick", "slow"], "{}", ended.stderr);
    }

    #[test]
    fn no_step_is_recorded_as_done_before_its_result_is_complete() {
        let mut seen = 0;
        for _ in 0..5 {
            let scene = scene();
            scene.write("go", "");
            let running = scene.start(&["apply", "plan.yaml"]);
            while running.is_running() {
                let dir = scene.path(".orchestrate");
                let records = State::read(&dir, |state| match state.latest_run(None)? {
                    Some(run) => state.node_records(&run),
                    None => Ok(Vec::new()),
                });
                let records = records.unwrap().unwrap_or_default();
                for row in records.iter().filter(|row| row.outcome == "succeeded") {
                    let key = row.key.as_ref().unwrap().parse().unwrap();
                    assert!(scene.store().result(key).unwrap().is_some(), "{} is not there", row.node);
                    seen += 1;
                }
            }
            assert_eq!(running.wait().code, Some(0));
        }
        assert!(seen > 0, "no record was seen while a run went on");
    }
}

mod damage {
    use super::*;

    /// Commands that read or write the state.
    const COMMANDS: [&[&str]; 4] =
        [&["apply", "plan.yaml"], &["status"], &["plan", "plan.yaml"], &["logs", "slow"]];

    fn assert_refused(scene: &Scene, found: &str) {
        let path = scene.path(".orchestrate/state.db");
        let before = fs::read(&path).unwrap();
        for arguments in COMMANDS {
            let ended = scene.run(arguments);
            assert_eq!(ended.code, Some(3), "{arguments:?}: {}{}", ended.stdout, ended.stderr);
            assert!(ended.stderr.contains(".orchestrate/state.db is damaged"), "{}", ended.stderr);
            assert!(ended.stderr.contains(found), "{}", ended.stderr);
            assert_eq!(fs::read(&path).unwrap(), before, "{arguments:?} changed it");
        }
    }

    #[test]
    fn a_truncated_database_is_refused_by_name_and_the_way_out_works() {
        let scene = applied();
        let path = scene.path(".orchestrate/state.db");
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        assert_refused(&scene, "malformed");
        let ended = scene.run(&["status"]);
        assert_snapshot!(ended.stderr, @"error: the state database .orchestrate/state.db is damaged: database disk image is malformed; it holds the history of runs and where each subject stands, while all results are safe in the store: move it away (`mv .orchestrate/state.db .orchestrate/state.db.damaged`), and the next `orchestrate apply` reuses the results and finds out again where each subject stands");
        fs::rename(&path, scene.path(".orchestrate/state.db.damaged")).unwrap();
        let ended = scene.run(&["apply", "plan.yaml"]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert_eq!(ended.nodes("reused"), ["quick", "slow"]);
    }

    #[test]
    fn a_last_page_cut_short_is_found() {
        let scene = applied();
        let path = scene.path(".orchestrate/state.db");
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() - 100]).unwrap();
        assert_refused(&scene, "");
    }

    #[test]
    fn a_file_that_is_no_database_is_refused_and_kept() {
        let scene = applied();
        for (content, found) in [
            ("", "the file is empty"),
            ("no database at all, but text that somebody put there by mistake", "not a database"),
        ] {
            scene.write(".orchestrate/state.db", content);
            assert_refused(&scene, found);
        }
    }

    #[test]
    fn a_database_of_something_else_is_refused_and_kept() {
        let scene = applied();
        let path = scene.path(".orchestrate/state.db");
        fs::remove_file(&path).unwrap();
        let other = rusqlite::Connection::open(&path).unwrap();
        other.execute_batch("CREATE TABLE theirs (x)").unwrap();
        drop(other);
        assert_refused(&scene, "it holds no tables of a state");
    }

    /// Everything a reader asks, and what a run writes.
    fn use_it(dir: &Path) -> Result<(), StateError> {
        State::read(dir, |state| {
            state.subjects()?;
            state.transitions()?;
            state.leases()?;
            state.last_results("p")?;
            for run in state.latest_runs(10)? {
                state.node_records(&run)?;
            }
            state.unfinished_runs()
        })?;
        let state = State::open(dir)?;
        state.check()?;
        state.begin_run("r9", "p", "9")?;
        state.record_nodes("r9", &rows(20))?;
        state.end_run("r9", "9", 0)
    }

    fn rows(count: usize) -> Vec<NodeRow> {
        let row = |n: usize| NodeRow {
            node: format!("node-{n}"),
            kind: "run".to_owned(),
            outcome: "succeeded".to_owned(),
            reason: None,
            key: Some(format!("{n:064}")),
            evidence: Some(format!("{n:064}")),
            attempt: 1,
            started_at: "1".to_owned(),
            took_ms: 5,
        };
        (0..count).map(row).collect()
    }

    fn filled(dir: &Path) {
        let state = State::open(dir).unwrap();
        for run in ["r1", "r2"] {
            state.begin_run(run, "p", "1").unwrap();
            state.record_nodes(run, &rows(200)).unwrap();
            state.end_run(run, "2", 0).unwrap();
        }
    }

    #[test]
    fn an_overwritten_page_is_an_error_that_names_the_file_and_never_a_panic() {
        let dir = tempfile::tempdir().unwrap();
        filled(dir.path());
        let path = dir.path().join("state.db");
        let whole = fs::read(&path).unwrap();
        let pages = whole.len() / 4096;
        assert!(pages > 20, "{pages}");
        for page in 0..pages {
            for filler in [0x00, 0xaa] {
                let mut broken = whole.clone();
                broken[page * 4096..(page + 1) * 4096].fill(filler);
                fs::write(&path, &broken).unwrap();
                let error = use_it(dir.path()).expect_err("a page was overwritten");
                assert!(matches!(error, StateError::Damaged { .. }), "page {page}: {error}");
                fs::remove_file(path.with_extension("db-wal")).ok();
                fs::remove_file(path.with_extension("db-shm")).ok();
            }
        }
    }

    #[test]
    fn changed_bytes_never_make_it_panic() {
        let dir = tempfile::tempdir().unwrap();
        filled(dir.path());
        let path = dir.path().join("state.db");
        let whole = fs::read(&path).unwrap();
        let mut at = 7_usize;
        for _ in 0..150 {
            let mut broken = whole.clone();
            for _ in 0..8 {
                at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let place = (at >> 16) % whole.len();
                broken[place] ^= 1 << (at >> 61);
            }
            fs::write(&path, &broken).unwrap();
            let _ = use_it(dir.path());
            fs::remove_file(path.with_extension("db-wal")).ok();
            fs::remove_file(path.with_extension("db-shm")).ok();
        }
    }

    #[test]
    fn a_log_of_another_database_is_not_read_into_a_new_one() {
        let scene = applied();
        let path = scene.path(".orchestrate/state.db");
        let running = State::open(&scene.path(".orchestrate")).unwrap();
        running.begin_run("r9", "p", "9").unwrap();
        let log = fs::read(path.with_extension("db-wal")).unwrap();
        assert!(!log.is_empty());
        drop(running);
        fs::remove_file(&path).unwrap();
        fs::write(path.with_extension("db-wal"), log).unwrap();
        let ended = scene.run(&["apply", "plan.yaml"]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert_eq!(scene.state().latest_runs(9).unwrap().len(), 1);
    }

    #[test]
    fn after_a_killed_run_every_page_is_looked_at_before_the_next_begins() {
        let scene = applied();
        let dir = scene.path(".orchestrate");
        let state = State::open(&dir).unwrap();
        state.begin_run("r8", "p", "8").unwrap();
        state.record_nodes("r8", &rows(200)).unwrap();
        drop(state);
        let path = dir.join("state.db");
        let mut broken = fs::read(&path).unwrap();
        // A page that nothing but the check reads: of the middle of the index of records.
        let page = broken.len() / 4096 / 2;
        broken[page * 4096..(page + 1) * 4096].fill(0xaa);
        fs::write(&path, broken).unwrap();
        let ended = scene.run(&["apply", "plan.yaml"]);
        assert_eq!(ended.code, Some(3), "{}", ended.stderr);
        assert!(ended.stderr.contains("state.db is damaged"), "{}", ended.stderr);
    }
}

mod versions {
    use super::*;

    fn version_1(scene: &Scene) {
        fs::create_dir_all(scene.path(".orchestrate")).unwrap();
        let db = rusqlite::Connection::open(scene.path(".orchestrate/state.db")).unwrap();
        db.pragma_update(None, "journal_mode", "WAL").unwrap();
        db.execute_batch(include_str!("../src/state/schema/1.sql")).unwrap();
        db.execute_batch(
            "PRAGMA user_version = 1;
             INSERT INTO runs VALUES ('r1', 'small', '2026-11-29T10:00:00Z', '2026-11-29T10:01:00Z', 0);
             INSERT INTO node_records VALUES
                 ('r1', 'quick', 1, 'run', 'succeeded', NULL, 'k', 'e', '2026-11-29T10:00:00Z', 5000);
             INSERT INTO subjects VALUES ('s', 'small', 't', 'ordinary', 'planned',
                 '2026-11-29T10:00:30Z', 'r1', '[]', '[\"a server\"]');
             INSERT INTO transitions VALUES ('s', NULL, 'planned', '2026-11-29T10:00:30Z', 'r1', 'seen');",
        )
        .unwrap();
    }

    fn version(scene: &Scene) -> i64 {
        let db = rusqlite::Connection::open(scene.path(".orchestrate/state.db")).unwrap();
        db.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
    }

    #[test]
    fn a_state_of_version_1_is_read_as_it_is_and_migrated_by_the_next_apply() {
        let scene = scene();
        version_1(&scene);
        scene.write("go", "");
        let before = scene.run(&["status"]);
        assert_snapshot!(before.stdout, @"
        s (plan small, target t, ordinary generation)
          [planned] → implemented → family-validated → aiperf-qualified
          since     2026-11-29T10:00:30Z by run r1
          evidence  none
          missing   for implemented: a server
          history   2026-11-29T10:00:30Z new → planned: seen
        ");
        assert!(scene.run(&["plan", "plan.yaml"]).stdout.contains("about 5.0s"));
        assert_eq!(version(&scene), 1);
        let ended = scene.run(&["apply", "plan.yaml"]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert_eq!(version(&scene), 2);
        assert_eq!(scene.run(&["status"]).stdout, before.stdout);
        assert_eq!(scene.state().latest_runs(9).unwrap().len(), 2);
    }

    #[test]
    fn a_newer_state_is_refused_by_readers_and_writers_and_kept() {
        let scene = applied();
        let path = scene.path(".orchestrate/state.db");
        let db = rusqlite::Connection::open(&path).unwrap();
        db.pragma_update(None, "user_version", 99).unwrap();
        drop(db);
        let before = fs::read(&path).unwrap();
        for arguments in [&["status"][..], &["apply", "plan.yaml"], &["logs", "slow"]] {
            let ended = scene.run(arguments);
            assert_eq!(ended.code, Some(3), "{}", ended.stderr);
            assert!(ended.stderr.contains("the state is of version 99"), "{}", ended.stderr);
        }
        assert_eq!(fs::read(&path).unwrap(), before);
    }
}

mod readers {
    use super::*;

    /// Names, sizes and times of everything in the project's state.
    fn listing(scene: &Scene) -> Vec<(PathBuf, u64, SystemTime)> {
        let mut found: Vec<_> = files_below(&scene.path(".orchestrate"))
            .into_iter()
            .map(|path| {
                let metadata = path.metadata().unwrap();
                (path, metadata.len(), metadata.modified().unwrap())
            })
            .collect();
        found.sort();
        found
    }

    #[test]
    fn a_run_that_goes_on_is_shown_and_the_status_command_writes_nothing() {
        let scene = scene();
        let running = at_work(&scene);
        let other = beside(&scene);
        let before = listing(&scene);
        let status = other.run(&["status"]);
        let by = format!("by process {}; at work: slow", running.pid());
        assert!(status.stdout.contains(&by), "{}{}", status.stdout, status.stderr);
        assert_eq!(other.run(&["logs", "slow"]).stdout, "waiting\n");
        let plan = other.run(&["plan", "plan.yaml"]);
        assert_eq!(plan.code, Some(0), "{}", plan.stderr);
        assert!(plan.stdout.contains("1 would run, 1 reused"), "{}", plan.stdout);
        assert_eq!(other.run(&["explain", "plan.yaml", "slow"]).code, Some(0));
        assert_eq!(listing(&scene), before);
    }

    #[test]
    fn a_killed_run_is_shown_as_such_until_the_next_one_clears_it() {
        let scene = scene();
        let running = at_work(&scene);
        signal(running.pid(), Signal::KILL);
        running.wait();
        scene.await_nothing_runs();
        let before = listing(&scene);
        let status = scene.run(&["status"]);
        assert!(status.stdout.contains("was killed; the next"), "{}{}", status.stdout, status.stderr);
        assert_eq!(scene.run(&["logs", "slow"]).stdout, "waiting\n");
        assert_eq!(listing(&scene), before);
        scene.write("go", "");
        let ended = scene.run(&["apply", "plan.yaml"]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert!(
            ended.stderr.contains("cleared     half-done work of slow that the killed run"),
            "{}",
            ended.stderr
        );
        assert!(!scene.run(&["status"]).stdout.contains("killed"));
        let killed = scene.state().latest_runs(2).unwrap().pop().unwrap();
        let rows = scene.state().node_records(&killed).unwrap();
        let slow = rows.iter().find(|row| row.node == "slow").unwrap();
        assert_eq!(
            (slow.outcome.as_str(), slow.reason.as_deref()),
            ("cancelled", Some("its run was killed"))
        );
    }

    #[test]
    fn a_reader_never_sees_damage_while_runs_begin_and_end() {
        let scene = applied();
        let dir = scene.path(".orchestrate");
        let runs = || State::read(&dir, |state| state.latest_runs(999)).unwrap().unwrap().len();
        let mut seen = 1;
        for _ in 0..20 {
            let running = scene.start(&["apply", "plan.yaml"]);
            while running.is_running() {
                let now = runs();
                assert!(now == seen || now == seen + 1, "{now} runs after {seen}");
                seen = now;
            }
            assert_eq!(running.wait().code, Some(0));
        }
        assert_eq!(runs(), 21);
    }
}

mod logs {
    use super::*;

    fn refused(scene: &Scene, arguments: &[&str]) -> String {
        let ended = scene.run(arguments);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{arguments:?}");
        ended.stderr
    }

    #[test]
    fn the_log_is_of_the_newest_run_in_which_the_node_did_its_work() {
        let scene = applied();
        assert_eq!(scene.run(&["apply", "plan.yaml"]).nodes("reused"), ["quick", "slow"]);
        let ended = scene.run(&["logs", "quick"]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "done\n"), "{}", ended.stderr);
    }

    #[test]
    fn what_is_not_there_is_answered_with_what_is() {
        let scene = scene();
        assert_snapshot!(refused(&scene, &["logs", "slow"]), @"error: .orchestrate knows no run yet; run `orchestrate apply PLAN` first");
        scene.write("go", "");
        scene.run(&["apply", "plan.yaml"]);
        let first = scene.state().latest_run(None).unwrap().unwrap();
        scene.run(&["apply", "plan.yaml"]);
        let second = scene.state().latest_run(None).unwrap().unwrap();
        let shown = |text: String| text.replace(&first, "[FIRST]").replace(&second, "[SECOND]");
        assert_snapshot!(shown(refused(&scene, &["logs", "solw"])), @"error: solw left no log in any run; did you mean slow?");
        assert_snapshot!(shown(refused(&scene, &["logs", "zebra-crossing"])), @"error: zebra-crossing left no log in any run; nodes that did are quick, slow");
        assert_snapshot!(shown(refused(&scene, &["logs", "slow", "--run", "r0"])), @"error: there is no run r0; the newest are [SECOND], [FIRST]");
        assert_snapshot!(shown(refused(&scene, &["logs", "slow", "--run", &second])), @"error: slow left no log in run [SECOND]; it did its work in --run [FIRST]");
        assert_snapshot!(shown(refused(&scene, &["logs", "../slow"])), @"error: ../slow left no log in any run; did you mean slow?");
    }
}
