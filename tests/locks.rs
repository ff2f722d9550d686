//! Who may run, and what becomes of the processes of a run that was killed:
//! the project's lock and its leases.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "support/small.rs"]
mod small;
mod support;

use std::fs;
use std::process::{Child, Command};

use insta::assert_snapshot;
use orchestrate::process::{Identity, tree};
use orchestrate::state::{Lease, LeaseKind, State};
use rustix::process::Signal;
use small::{LONG, PLAN, applied, at_work, beside, scene, supervisor_of_slow};
use support::{Scene, redacting, signal, wait_for};

mod locks {
    use super::*;

    #[test]
    fn garbage_in_the_lock_file_is_harmless() {
        let scene = applied();
        scene.write(".orchestrate/apply.lock", b"\xff{\"pid\": ");
        let ended = scene.run(&["apply", "plan.yaml"]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    }

    #[test]
    fn ctrl_c_in_the_middle_leaves_no_broken_lock_or_document() {
        let scene = scene();
        let running = at_work(&scene);
        signal(running.pid(), Signal::INT);
        assert_eq!(running.wait().code, Some(130));
        scene.assert_nothing_runs();
        let status = scene.run(&["status", "--json"]);
        assert_eq!(status.stdout, "{\n  \"subjects\": []\n}\n");
        assert_eq!(scene.run(&["plan", "plan.yaml", "--json"]).code, Some(0));
        scene.write("go", "");
        let ended = scene.run(&["apply", "plan.yaml"]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert_eq!((ended.nodes("reused"), ended.nodes("succeeded")), (vec!["quick"], vec!["slow"]));
    }

    #[test]
    fn a_second_apply_ends_at_once_and_says_who_runs_what_since_when() {
        let scene = scene();
        let first = at_work(&scene);
        let ended = beside(&scene).run(&["apply", "plan.yaml"]);
        assert_eq!(ended.code, Some(3));
        assert!(ended.stderr.contains(&format!("process {} since", first.pid())), "{}", ended.stderr);
        let _redacted = redacting();
        assert_snapshot!(ended.stderr, @"error: another apply of this project is running: process [N] since [INSTANT], plan small; wait for it with `--wait`, or stop it");
    }

    #[test]
    fn a_second_apply_can_wait_and_says_once_for_whom() {
        let scene = scene();
        let first = at_work(&scene);
        let other = beside(&scene);
        let second = other.start(&["apply", "plan.yaml", "--wait"]);
        wait_for("the second to wait", LONG, || second.stderr().contains("waiting").then_some(()));
        scene.write("go", "");
        assert_eq!(first.wait_within(LONG).code, Some(0));
        let ended = second.wait_within(LONG);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert_eq!(ended.stderr.matches("waiting ").count(), 1, "{}", ended.stderr);
        assert_eq!(ended.nodes("reused"), ["quick", "slow"]);
    }

    #[test]
    fn ctrl_c_ends_the_waiting_and_leaves_the_first_alone() {
        let scene = scene();
        let first = at_work(&scene);
        let other = beside(&scene);
        let second = other.start(&["apply", "plan.yaml", "--wait"]);
        wait_for("the second to wait", LONG, || second.stderr().contains("waiting").then_some(()));
        signal(second.pid(), Signal::INT);
        let ended = second.wait_within(LONG);
        assert_eq!(ended.code, Some(130));
        let _redacted = redacting();
        assert_snapshot!(ended.stderr, @"
        waiting     for process [N] since [INSTANT], plan small
        error: stopped while it waited for another apply of this project; nothing was run
        ");
        scene.write("go", "");
        assert_eq!(first.wait_within(LONG).code, Some(0));
    }

    #[test]
    fn the_lock_dies_with_its_holder_although_a_child_lives_on() {
        let scene = Scene::isolated();
        scene.write(
            "plan.yaml",
            "\
orchestrate: 1
name: deaf
nodes:
  deaf:
    run:
      command: [sh, -c, \"trap '' TERM; while :; do sleep 0.05; done\"]
",
        );
        let running = scene.start(&["apply", "plan.yaml"]);
        scene.await_process("trap '' TERM", LONG);
        signal(running.pid(), Signal::KILL);
        running.wait();
        let other = beside(&scene);
        let again = other.start(&["apply", "plan.yaml"]);
        wait_for("the next run to have the lock", LONG, || {
            let holder = fs::read_to_string(scene.path(".orchestrate/apply.lock")).ok()?;
            holder.contains(&format!("\"pid\":{},", again.pid())).then_some(())
        });
        let living = scene.processes().into_iter().filter(|(_, command)| command.contains("trap"));
        assert!(living.count() > 0, "the child of the killed run ended before the lock was taken");
        wait_for("the next run to begin", LONG, || again.stderr().contains("started     deaf").then_some(()));
        let cleared = again.stderr();
        assert!(cleared.contains("half-done work of deaf that the killed run"), "{cleared}");
        drop(again);
        scene.await_nothing_runs();
    }
}

mod leases {
    use super::*;

    /// A process that is none of ours.
    struct Stranger(Child);

    impl Stranger {
        fn new() -> Self {
            Self(Command::new("sleep").arg("60").spawn().unwrap())
        }

        fn identity(&self) -> Identity {
            Identity::of(self.0.id()).unwrap()
        }
    }

    impl Drop for Stranger {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// A state whose killed run leased a process.
    fn leased(scene: &Scene, identity: Identity, boot: &str) {
        let state = State::open(&scene.path(".orchestrate")).unwrap();
        state.begin_run("r0", "small", "2026-11-29T10:00:00Z").unwrap();
        let lease = |what| Lease {
            run: "r0".to_owned(),
            node: "server".to_owned(),
            pid: identity.pid,
            start_time: identity.start_time,
            boot: boot.to_owned(),
            what,
            since: "2026-11-29T10:00:00Z".to_owned(),
        };
        state.lease(&[lease(LeaseKind::Supervisor)]).unwrap();
    }

    fn applied_after(identity: Identity, boot: &str) -> String {
        let scene = scene();
        leased(&scene, identity, boot);
        scene.write("go", "");
        let ended = scene.run(&["apply", "plan.yaml"]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert_eq!(scene.state().leases().unwrap(), []);
        ended.stderr
    }

    #[test]
    fn a_stranger_that_got_the_number_of_a_leased_process_is_spared() {
        let stranger = Stranger::new();
        let living = stranger.identity();
        let earlier = Identity { start_time: living.start_time - 1, ..living };
        let shown = applied_after(earlier, &tree::boot_id().unwrap());
        assert!(shown.contains("cleared     nothing that the killed run r0 left"), "{shown}");
        assert!(living.is_alive());
    }

    #[test]
    fn a_process_of_another_boot_is_spared() {
        let stranger = Stranger::new();
        applied_after(stranger.identity(), "00000000-0000-0000-0000-000000000000");
        assert!(stranger.identity().is_alive());
    }

    #[test]
    fn a_process_that_is_the_leased_one_is_ended() {
        let stranger = Stranger::new();
        let leased = stranger.identity();
        let shown = applied_after(leased, &tree::boot_id().unwrap());
        assert!(shown.contains("cleared     1 process that the killed run r0 left"), "{shown}");
        assert!(!leased.is_alive());
    }

    #[test]
    fn a_supervisor_that_could_not_do_its_work_is_ended_with_its_tree_by_the_next_run() {
        let scene = scene();
        let running = at_work(&scene);
        let supervisor = supervisor_of_slow(&scene);
        signal(supervisor.pid, Signal::STOP);
        signal(running.pid(), Signal::KILL);
        running.wait();
        assert!(!scene.processes().is_empty());
        scene.write("plan.yaml", PLAN.replace("echo waiting", "echo again"));
        scene.write("go", "");
        let ended = scene.run(&["apply", "plan.yaml"]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert!(ended.stderr.contains("half-done work of slow that the killed run"), "{}", ended.stderr);
        scene.assert_nothing_runs();
    }

    #[test]
    fn a_program_whose_supervisor_died_with_the_orchestrator_is_ended_by_the_next_run() {
        let scene = scene();
        let running = at_work(&scene);
        let supervisor = supervisor_of_slow(&scene);
        signal(running.pid(), Signal::STOP);
        signal(supervisor.pid, Signal::KILL);
        signal(running.pid(), Signal::KILL);
        running.wait();
        assert!(!scene.processes().is_empty(), "the command went on by itself");
        scene.write("plan.yaml", PLAN.replace("echo waiting", "echo again; exit 0"));
        let ended = scene.run(&["apply", "plan.yaml"]);
        assert!(ended.stderr.contains("cleared     "), "{}", ended.stderr);
        scene.assert_nothing_runs();
    }

    #[test]
    fn a_run_that_ended_leases_nothing() {
        assert_eq!(applied().state().leases().unwrap(), []);
    }
}
