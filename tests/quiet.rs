//! The machine around a measurement: what the evidence says of it, and what
//! becomes of a measurement on a busy one.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use serde_json::Value;
use support::schemas::assert_evidence_fits;
use support::{Ended, Scene};

/// No machine is so quiet that others use less than nothing of it.
const ALWAYS_BUSY: &str = "others_below: 0, steal_below: 1";
/// No machine is so busy that others use more than all of it.
const NEVER_BUSY: &str = "others_below: 1, steal_below: 1";

/// A plan that measures for longer than a second.
fn measuring(quiet: &str) -> Scene {
    let scene = Scene::isolated();
    write_plan(&scene, quiet);
    scene
}

fn write_plan(scene: &Scene, quiet: &str) {
    let plan = format!(
        "orchestrate: 1\nname: quiet\nnodes:\n  load:\n    run:\n      command: [sh, -c, 'sleep 1.2; date > \
         time']\n      outputs: {{time: time}}\n      reuse: measurement\n    quiet: {{{quiet}}}\n"
    );
    scene.write("plan.yaml", plan);
}

fn apply(scene: &Scene) -> Ended {
    scene.run(&["apply", "plan.yaml"])
}

/// What the evidence of the measurement says of the machine.
fn machine(scene: &Scene) -> Value {
    let (node, kind, document) = scene.evidence().into_iter().next().unwrap();
    assert_evidence_fits(&document, &kind, &node);
    document["machine"].clone()
}

#[test]
fn the_evidence_of_a_measurement_shows_the_machine_before_during_and_after() {
    let scene = measuring(NEVER_BUSY);
    let ended = apply(&scene);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let machine = machine(&scene);
    assert!(machine["before"]["load_average"]["value"].is_f64(), "{machine:#}");
    assert!(machine["after"]["load_average"]["value"].is_f64(), "{machine:#}");
    let during = &machine["during"];
    assert!(during["seconds"].as_f64().unwrap() >= 1.2, "{machine:#}");
    for quantity in ["others", "own", "steal"] {
        let mean = during[quantity]["value"]["mean"].as_f64().unwrap();
        assert!((0.0..=1.0).contains(&mean) && during[quantity]["value"]["samples"] != 0, "{machine:#}");
    }
    // What a machine does not show has a reason, and nothing is left out.
    for quantity in ["throttled", "cpu_mhz", "cpu_pressure", "gpu_utilisation", "gpu_others"] {
        let seen = &during[quantity];
        assert!(!seen["value"].is_null() || seen["unavailable"].is_string(), "{quantity}: {machine:#}");
    }
    scene.assert_nothing_runs();
}

#[test]
fn a_measurement_on_a_busy_machine_counts_and_is_flagged() {
    let scene = measuring(ALWAYS_BUSY);
    let ended = apply(&scene);
    assert_eq!(ended.nodes("succeeded"), ["load"], "{}", ended.stderr);
    assert!(ended.stderr.contains("busy: others used "), "{}", ended.stderr);
    let busy = machine(&scene)["busy"][0].as_str().unwrap().to_owned();
    assert!(busy.starts_with("others used ") && busy.ends_with(" % of the CPU"), "{busy}");
    assert!(scene.records()[0].reason.as_ref().unwrap().contains(&busy));
    assert_eq!(apply(&scene).nodes("reused"), ["load"]);
}

#[test]
fn a_busy_machine_is_refused_before_the_node_starts_where_the_plan_says_so() {
    let scene = measuring(&format!("{ALWAYS_BUSY}, on_busy: refuse, wait: 1s"));
    let ended = apply(&scene);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    let says = "the machine is busy, also after waiting 1s: others used ";
    assert!(ended.stderr.contains(says), "{}", ended.stderr);
    assert!(ended.stderr.contains("raise `wait`, or write `on_busy: flag`"), "{}", ended.stderr);
    assert_eq!(scene.evidence().len(), 0, "it was measured");
    scene.assert_nothing_runs();
}

#[test]
fn a_quiet_machine_is_not_refused() {
    let scene = measuring(&format!("{NEVER_BUSY}, on_busy: refuse"));
    assert_eq!(apply(&scene).nodes("succeeded"), ["load"]);
}

#[test]
fn a_measurement_on_a_busy_machine_is_not_reused_where_the_plan_refuses_those() {
    let scene = measuring(ALWAYS_BUSY);
    assert_eq!(apply(&scene).nodes("succeeded"), ["load"]);
    write_plan(&scene, &format!("{NEVER_BUSY}, on_busy: refuse"));
    let plan = scene.run(&["plan", "plan.yaml"]).stdout;
    assert!(plan.contains("the machine was busy then: others used "), "{plan}");
    assert_eq!(apply(&scene).nodes("succeeded"), ["load"]);
    // How quiet a machine has to be is no part of the key: the same result serves both.
    write_plan(&scene, ALWAYS_BUSY);
    assert_eq!(apply(&scene).nodes("reused"), ["load"]);
}
