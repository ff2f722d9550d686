//! Forecasts over a store whose results are put there by hand.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::evidence::redact::SiteValues;
use crate::plan::{Given, load};
use crate::store::Store;
use crate::value::Digest;

/// A file, a bundle of it, a server, a warmup, and a second one as the load.
const NODES: &str = "
  file:
    fetch: {sources: [{path: a.txt}]}
  bundle:
    build_bundle: {model: '${nodes.file}', engine: {llama_cpp: {precision: F16, context_length: 64}}}
  server:
    serve: {bundle: '${nodes.bundle}', model_name: m}
  warm:
    warmup: {server: '${nodes.server}', requests: 1}
  load:
    warmup: {server: '${nodes.server}', requests: 9}
    needs: [warm]
";

struct Scene {
    dir: tempfile::TempDir,
    world: Arc<World>,
    last: BTreeMap<String, LastResult>,
}

impl Scene {
    fn new(nodes: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let world = World {
            store: Store::open(&dir.path().join("store")).unwrap(),
            variables: BTreeMap::new(),
            site: SiteValues::default(),
            secrets: crate::process::Masker::default(),
            supervisor: PathBuf::new(),
            host: runtime.block_on(crate::host::probe(&BTreeMap::new())),
            events: Box::new(drop),
            leases: Arc::new(crate::process::NoLeases),
            cancelled: crate::process::Interrupt::never(),
            run: "r".to_owned(),
            scratch: PathBuf::new(),
            programs: crate::node::Programs::default(),
        };
        let scene = Self { dir, world: Arc::new(world), last: BTreeMap::new() };
        scene.write("a.txt", "a text");
        scene.write("plan.yaml", &format!("orchestrate: 1\nname: p\nnodes:{nodes}"));
        scene
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.dir.path().join(name), text).unwrap();
    }

    fn asked<T>(&self, remeasure: bool, answer: impl FnOnce(&Question<'_>) -> T) -> T {
        let plan = load(&self.dir.path().join("plan.yaml"), &Given::default()).unwrap();
        let dag = Dag::new(&plan).unwrap();
        answer(&Question {
            plan: &plan,
            dag: &dag,
            world: Arc::clone(&self.world),
            state_dir: &self.dir.path().join("state"),
            site: &BTreeMap::new(),
            remeasure,
            selection: Selection::default(),
            now: jiff::Timestamp::now(),
            last: self.last.clone(),
        })
    }

    fn forecast(&self) -> Forecast {
        self.asked(false, |question| forecast(question).unwrap())
    }

    fn node(&self, name: &str) -> ForecastNode {
        self.forecast().nodes.into_iter().find(|node| node.node == name).unwrap()
    }

    fn actions(&self) -> BTreeMap<String, Action> {
        self.forecast().nodes.into_iter().map(|node| (node.node, node.action)).collect()
    }

    /// Puts a result under the key that a node has now, and remembers it as
    /// its last.
    fn make(&mut self, name: &str, outputs: &Value) -> Digest {
        let explained = self.asked(false, |question| explain(question, name).unwrap().unwrap());
        let key = explained.forecast.key.unwrap();
        let store = &self.world.store;
        let result = StoredResult {
            key_document: explained.key_document.as_ref().unwrap().into(),
            outputs: serde_json::from_value(outputs.clone()).unwrap(),
            evidence: store.put_json(&json!({"of": name})).unwrap(),
            blobs: vec![store.put_bytes(name.as_bytes()).unwrap()],
            services: BTreeMap::new(),
            primed_by: BTreeMap::new(),
            attempt: 1,
            made_at: "2026-11-30T00:00:00Z".to_owned(),
            took_ms: 1000,
        };
        store.put_result(key, &result).unwrap();
        let last = LastResult {
            key: Some(key.to_string()),
            at: result.made_at,
            took_ms: Some(2000),
            retried: None,
            said: None,
        };
        self.last.insert(name.to_owned(), last);
        key
    }

    fn make_all(&mut self) {
        self.make("file", &file("file"));
        self.make("bundle", &json!({}));
        self.make("warm", &json!({}));
        self.make("load", &json!({}));
    }
}

fn file(content: &str) -> Value {
    json!({"file": {"file": {"name": "a.txt", "digest": Digest::of(content)}}})
}

#[test]
fn with_an_empty_store_everything_runs_and_the_server_starts() {
    let scene = Scene::new(NODES);
    let forecast = scene.forecast();
    assert_eq!((forecast.totals.run, forecast.totals.start, forecast.totals.without_duration), (4, 1, 4));
    assert_eq!(scene.node("file").reason.as_deref(), Some("not in the store yet"));
    let bundle = scene.node("bundle");
    assert_eq!((bundle.waits_for, bundle.may_be_reused), (vec!["file".to_owned()], true));
    assert_eq!(
        bundle.reason.as_deref(),
        Some(
            "file would run first, so its key is not known yet; it may still be reused if file gives \
             the same content"
        )
    );
    assert_eq!(scene.node("server").reason.as_deref(), Some("for load, warm"));
    assert_eq!(scene.node("warm").waits_for, ["bundle"]);
    assert_eq!(scene.node("load").waits_for, ["bundle"]);
}

#[test]
fn before_its_inputs_have_run_a_node_says_what_else_differs_already() {
    let mut scene = Scene::new(NODES);
    scene.make_all();
    scene.write("a.txt", "another text");
    scene.write("plan.yaml", &format!("orchestrate: 1\nname: p\nnodes:{}", NODES.replace(": 9", ": 10")));
    let explained = scene.asked(false, |question| explain(question, "load").unwrap().unwrap());
    let paths: Vec<_> = explained.forecast.changes.iter().map(|change| change.path.as_str()).collect();
    assert_eq!(paths, ["settings.requests"]);
    assert!(explained.inputs.iter().all(|input| input.digest.is_none()), "{:?}", explained.inputs);
}

#[test]
fn with_every_result_in_the_store_nothing_runs_and_no_server_is_needed() {
    let mut scene = Scene::new(NODES);
    scene.make_all();
    let forecast = scene.forecast();
    assert_eq!((forecast.totals.run, forecast.totals.reuse, forecast.totals.not_needed), (0, 4, 1));
    let load = scene.node("load");
    assert_eq!((load.made_at.as_deref(), load.last_took_ms), (Some("2026-11-30T00:00:00Z"), Some(1000)));
}

#[test]
fn a_load_that_runs_again_is_warmed_up_again() {
    let mut scene = Scene::new(NODES);
    scene.make_all();
    scene.write("plan.yaml", &format!("orchestrate: 1\nname: p\nnodes:{}", NODES.replace(": 9", ": 10")));
    let actions = scene.actions();
    assert_eq!((actions["load"], actions["warm"]), (Action::Run, Action::Run));
    assert_eq!((actions["bundle"], actions["server"]), (Action::Reuse, Action::Start));
    let load = scene.node("load");
    assert_eq!(load.reason.as_deref(), Some("it differs from its last result"));
    assert_eq!(load.last_took_ms, Some(2000));
    let [change] = &load.changes[..] else { panic!("{:?}", load.changes) };
    assert_eq!(change.path, "settings.requests");
    assert_eq!((&change.before, &change.after), (&Some(json!(9)), &Some(json!(10))));
}

#[test]
fn a_warmup_that_is_not_in_the_store_runs_and_the_load_is_still_reused() {
    let mut scene = Scene::new(NODES);
    scene.make_all();
    let key = scene.node("warm").key.unwrap().to_string();
    let result = scene.dir.path().join("store/results").join(&key[..2]).join(format!("{key}.json"));
    std::fs::remove_file(result).unwrap();
    let actions = scene.actions();
    assert_eq!((actions["warm"], actions["load"]), (Action::Run, Action::Reuse));
    assert_eq!(scene.node("server").reason.as_deref(), Some("for warm"));
}

#[test]
fn a_result_of_which_something_is_gone_runs_again_and_says_what_is_gone() {
    let mut scene = Scene::new(NODES);
    scene.make_all();
    let output = Digest::of("file").to_string();
    let blob = scene.dir.path().join("store/blobs").join(&output[..2]).join(&output);
    std::fs::remove_file(blob).unwrap();
    let node = scene.node("file");
    assert_eq!(node.reason.as_deref(), Some("its result is in the store, but its output file is gone"));
    assert_eq!(node.last_took_ms, Some(2000));
    assert!(scene.node("bundle").may_be_reused);
}

#[test]
fn a_result_that_left_the_store_is_not_said_to_be_new() {
    let mut scene = Scene::new(NODES);
    scene.make_all();
    std::fs::remove_dir_all(scene.dir.path().join("store/results")).unwrap();
    assert_eq!(scene.node("file").reason.as_deref(), Some("its result is no longer in the store"));
    scene.write("a.txt", "another text");
    assert_eq!(
        scene.node("file").reason.as_deref(),
        Some("not in the store yet; its last result had another key and is no longer in the store")
    );
}

#[test]
fn measuring_again_keeps_what_is_content() {
    let mut scene = Scene::new(NODES);
    scene.make_all();
    let forecast = scene.asked(true, |question| forecast(question).unwrap());
    let runs: Vec<_> =
        forecast.nodes.iter().filter(|node| node.action == Action::Run).map(|node| &*node.node).collect();
    assert_eq!(runs, ["warm", "load"]);
    assert_eq!(forecast.totals.known_ms, 4000);
}

#[test]
fn an_order_without_data_does_not_hide_a_key() {
    let scene = Scene::new(
        "\n  a:\n    fetch: {sources: [{path: a.txt}]}\n  b:\n    fetch: {sources: [{path: a.txt}]}\n    needs: [a]\n",
    );
    let b = scene.node("b");
    assert!(b.key.is_some() && b.waits_for.is_empty());
}

#[test]
fn an_explanation_tells_what_enters_the_key_and_what_is_damaged() {
    let mut scene = Scene::new(NODES);
    scene.make_all();
    let evidence = scene.world.store.put_json(&json!({"of": "bundle"})).unwrap().to_string();
    let blob = scene.dir.path().join("store/blobs").join(&evidence[..2]).join(&evidence);
    std::fs::remove_file(&blob).unwrap();
    std::fs::write(&blob, "a lie").unwrap();
    let mut world = Arc::into_inner(std::mem::replace(&mut scene.world, Scene::new(NODES).world)).unwrap();
    world.store = Store::read_only(&scene.dir.path().join("store"));
    scene.world = Arc::new(world);
    let explained = scene.asked(false, |question| explain(question, "bundle").unwrap().unwrap());
    assert_eq!(explained.damaged, ["its evidence"]);
    assert!(blob.is_file());
    let [input] = &explained.inputs[..] else { panic!("{:?}", explained.inputs) };
    assert_eq!((input.node.as_str(), input.why.as_str(), input.action), ("file", "data", Action::Reuse));
    let document = explained.key_document.unwrap();
    assert_eq!(document["inputs"]["file"], json!(input.digest));
    assert_eq!(Some(Digest::of_json(&document)), explained.forecast.key);
    assert!(explained.last.unwrap().same);
    assert_eq!(scene.asked(false, |question| explain(question, "nobody").unwrap()), None);
}
