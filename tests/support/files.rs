//! A small plan of two files, applied for what it leaves in the store.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::path::PathBuf;

use orchestrate::value::Digest;
use serde_json::Value;

use super::support::schemas::assert_fits;
use super::support::{Ended, Scene, files_below};

/// The length of the large file.
pub const LARGE: usize = 3 << 20;

/// A plan of two files.
pub const PLAN: &str = "orchestrate: 1
name: files
nodes:
  small:
    fetch:
      sources: [{path: small.txt}]
  large:
    fetch:
      sources: [{path: large.bin}]
    needs: [small]
";

pub fn scene() -> Scene {
    let scene = Scene::isolated();
    scene.write("plan.yaml", PLAN);
    scene.write("small.txt", "a text");
    scene.write("large.bin", vec![7; LARGE]);
    scene
}

pub fn apply(scene: &Scene) -> Ended {
    scene.run(&["apply", "plan.yaml"])
}

pub fn applied() -> Scene {
    let scene = scene();
    assert_ok(&apply(&scene));
    scene
}

pub fn assert_ok(ended: &Ended) {
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
}

/// Nothing in the store is damaged, lost or half there.
pub fn assert_whole(scene: &Scene) {
    assert_ok(&scene.run(&["store", "verify"]));
    assert_eq!(files_below(&scene.path("store/tmp")), Vec::<PathBuf>::new());
}

/// Where the store keeps a content.
pub fn blob(scene: &Scene, content: impl AsRef<[u8]>) -> PathBuf {
    let digest = Digest::of(content).to_string();
    scene.path("store/blobs").join(&digest[..2]).join(digest)
}

/// What a command printed, which fits the schema of its output.
pub fn json(ended: &Ended, schema: &str) -> Value {
    let document = serde_json::from_str(&ended.stdout).unwrap();
    assert_fits(&document, &format!("output/{schema}.schema.json"), &ended.stdout);
    document
}
