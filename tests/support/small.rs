//! A small plan whose second step goes on until a test lets it end.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::fs;
use std::time::Duration;

use orchestrate::state::{Lease, LeaseKind, State};

use super::support::{self, Running, Scene, wait_for};

/// More than any of these runs takes on a busy machine.
pub const LONG: Duration = Duration::from_secs(20);

/// A step that ends at once, and one that ends when a file appears.
pub const PLAN: &str = "\
orchestrate: 1
name: small
nodes:
  quick:
    run:
      command: [sh, -c, 'echo done; echo quick > out']
      outputs: {out: out}
  slow:
    run:
      command: [sh, -c, 'echo waiting; until [ -e \"$GO\" ]; do sleep 0.02; done; cat in > out']
      inputs: {in: '${nodes.quick.out}'}
      outputs: {out: out}
      environment: {GO: '${env.GO}'}
";

/// A place with the plan.
pub fn scene() -> Scene {
    let scene = Scene::isolated();
    let go = scene.path("go");
    scene.write("plan.yaml", PLAN);
    scene.with("GO", go)
}

/// A place in which the plan is done.
pub fn applied() -> Scene {
    let scene = scene();
    scene.write("go", "");
    let ended = scene.run(&["apply", "plan.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    scene
}

/// A run whose slow step is at work.
pub fn at_work(scene: &Scene) -> Running {
    let running = scene.start(&["apply", "plan.yaml"]);
    wait_for("the slow step", LONG, || running.stderr().contains("started     slow").then_some(()));
    wait_for("its output", LONG, || {
        fs::read_to_string(log_of_slow(scene)?).ok().filter(|text| !text.is_empty())
    });
    supervisor_of_slow(scene);
    running
}

/// The lease of the supervisor of the step at work.
pub fn supervisor_of_slow(scene: &Scene) -> Lease {
    let dir = scene.path(".orchestrate");
    wait_for("the lease of the slow step", LONG, || {
        let leases = State::read(&dir, State::leases).unwrap().unwrap();
        leases.into_iter().find(|lease| lease.what == LeaseKind::Supervisor && lease.node == "slow")
    })
}

/// The log of the step at work.
pub fn log_of_slow(scene: &Scene) -> Option<std::path::PathBuf> {
    support::files_below(&scene.path(".orchestrate/runs")).into_iter().find(|path| path.ends_with("slow/log"))
}

/// Another place in which commands run on a scene's project, with their
/// output in files of their own.
pub fn beside(scene: &Scene) -> Scene {
    let other = Scene::isolated().with("GO", scene.path("go")).with("ORCHESTRATE_STORE", scene.path("store"));
    fs::remove_dir_all(other.path("tmp")).unwrap();
    std::os::unix::fs::symlink(scene.path("tmp"), other.path("tmp")).unwrap();
    std::os::unix::fs::symlink(scene.path("plan.yaml"), other.path("plan.yaml")).unwrap();
    std::os::unix::fs::symlink(scene.path(".orchestrate"), other.path(".orchestrate")).unwrap();
    other
}
