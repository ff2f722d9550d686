//! Where a case happens: a project directory and a store, in which plans are
//! written, run, killed, and their results taken away.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use orchestrate::dag::Dag;
use orchestrate::evidence::host::Host;
use orchestrate::evidence::redact::SiteValues;
use orchestrate::node::{Artifact, Programs, World};
use orchestrate::plan::{Given, load};
use orchestrate::run::{self, Options};
use orchestrate::state::{NodeRow, State, StateError};
use orchestrate::store::{Recorded, Store, StoreError};
use orchestrate::value::Digest;
use orchestrate::{host, process};
use tokio::runtime::Runtime;

use super::genes::{After, Harm, Kill};
use super::model::{Model, NAMES};
use super::oracle::{Found, Identity, Left, Oracle, Rules};
use crate::support::{Scene, files_below};

/// What a damaged text is.
pub const DAMAGE: &str = "damage";

/// The machine, looked at once.
static HOST: LazyLock<Host> = LazyLock::new(|| {
    Runtime::new().unwrap().block_on(host::probe(&process::base_environment(std::env::vars_os())))
});

/// A project with its store.
pub struct Workshop<'a> {
    scene: Scene,
    runtime: &'a Runtime,
    /// What lies in the project's directory.
    written: BTreeMap<String, String>,
    /// Keys as the product recorded them, to find results by.
    keys: BTreeMap<Identity, String>,
    runs: usize,
}

/// A store and a state.
#[derive(Debug, Clone, Copy)]
pub enum Place {
    /// The ones that a case goes on with.
    Old,
    /// Empty ones.
    Fresh,
}

impl<'a> Workshop<'a> {
    pub fn new(runtime: &'a Runtime) -> Self {
        let scene = Scene::in_memory();
        Self { scene, runtime, written: BTreeMap::new(), keys: BTreeMap::new(), runs: 0 }
    }

    /// The directory in which commands note that they ran.
    pub fn side(&self) -> String {
        self.scene.path("side").display().to_string()
    }

    /// Writes the plan and what changed of the files beside it; other files
    /// are left alone.
    pub fn write(&mut self, model: &Model) {
        let mut wanted = BTreeMap::from([("plan.yaml".to_owned(), model.plan(&self.side()))]);
        wanted.extend(model.files.iter().enumerate().map(|(at, text)| (format!("f{at}"), text.clone())));
        wanted.extend(model.folder.iter().map(|(name, text)| (format!("d/{name}"), text.clone())));
        let barred = model.nodes.iter().filter(|node| node.is_barred);
        wanted.extend(barred.map(|node| (format!("side/bar-{}", node.number), String::new())));
        for gone in self.written.keys().filter(|name| !wanted.contains_key(*name)) {
            fs::remove_file(self.scene.path(gone)).unwrap();
        }
        for (name, text) in wanted.iter().filter(|(name, text)| self.written.get(*name) != Some(*text)) {
            self.scene.write(name, text);
        }
        // The folder is there with or without files; an empty one below it is not.
        fs::create_dir_all(self.scene.path("d")).unwrap();
        if !model.folder.contains_key(NAMES[2]) {
            let _ = fs::remove_dir(self.scene.path("d/sub"));
        }
        fs::create_dir_all(self.scene.path("side")).unwrap();
        self.written = wanted;
    }

    /// Writes a file again as it is.
    pub fn touch(&self, file: usize) {
        let name = format!("f{file}");
        self.scene.write(&name, &self.written[&name]);
    }

    fn store_dir(&self, place: Place) -> PathBuf {
        self.scene.path(match place {
            Place::Old => "store",
            Place::Fresh => "fresh/store",
        })
    }

    fn state_dir(&self, place: Place) -> PathBuf {
        self.scene.path(match place {
            Place::Old => ".orchestrate",
            Place::Fresh => "fresh/state",
        })
    }

    /// Runs the plan to its end, in this process.
    pub fn apply(&mut self, place: Place, rules: Rules) -> Result<Found, String> {
        let before = self.noted().len();
        let code = self.applied(place, rules)?;
        Ok(self.found(self.rows(place), before, Some(code)))
    }

    fn found(&self, rows: Vec<NodeRow>, noted_before: usize, exit_code: Option<u8>) -> Found {
        let mut found = Found { exit_code, ..Found::default() };
        for number in self.noted().split_off(noted_before) {
            *found.ran.entry(number).or_default() += 1;
        }
        for row in rows {
            if let Some(key) = row.key.filter(|_| row.outcome == "succeeded" || row.outcome == "reused") {
                found.keys.insert(row.node.clone(), key);
            }
            found.outcomes.insert(row.node, row.outcome);
        }
        found
    }

    fn applied(&mut self, place: Place, rules: Rules) -> Result<u8, String> {
        let plan =
            load(&self.scene.path("plan.yaml"), &Given::default()).map_err(|error| error.to_string())?;
        let dag = Dag::new(&plan).map_err(|error| error.to_string())?;
        let options = Options {
            state_dir: self.state_dir(place),
            keep_going: rules.keep_going,
            remeasure: false,
            require: Vec::new(),
            jobs: rules.jobs,
            selection: run::Selection::default(),
            wait: false,
            site: BTreeMap::new(),
        };
        loop {
            let world = Arc::new(self.world(place));
            match self.runtime.block_on(run::apply(&plan, &dag, &options, world, run::Foresight::default())) {
                Ok(report) => return Ok(report.exit_code),
                // Between its fork and its exec, a child of another thread
                // holds the lock of the run before.
                Err(run::RunError::State(StateError::Busy(_))) => std::thread::yield_now(),
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    fn world(&mut self, place: Place) -> World {
        self.runs += 1;
        World {
            store: Store::open(&self.store_dir(place)).unwrap(),
            variables: process::base_environment(std::env::vars_os()),
            supervisor: PathBuf::from(env!("CARGO_BIN_EXE_orchestrate")),
            host: HOST.clone(),
            site: SiteValues::default(),
            secrets: process::Masker::default(),
            events: Box::new(drop),
            cancelled: orchestrate::process::Interrupt::never(),
            run: format!("run-{}", self.runs),
            scratch: self.scene.path("scratch"),
            programs: Programs::default(),
            leases: Arc::new(process::NoLeases),
        }
    }

    /// Starts the real program on the plan and kills it; nothing of it runs
    /// any more afterwards.
    pub fn kill(&mut self, rules: Rules, kill: Kill) -> Found {
        let before = self.noted().len();
        let known = self.latest_run();
        let jobs = rules.jobs.to_string();
        let keep_going = rules.keep_going.then_some("--keep-going");
        let arguments = ["apply", "plan.yaml", "--jobs", &jobs].into_iter().chain(keep_going);
        let count = || match kill.after {
            After::Commands => self.noted().len(),
            After::Results => files_below(&self.store_dir(Place::Old).join("results")).len(),
        };
        let counted_before = count();
        let mut running = self.scene.start(&arguments.collect::<Vec<_>>());
        while !running.has_ended() && count() < counted_before + kill.count {
            std::thread::sleep(Duration::from_micros(200));
        }
        std::thread::sleep(Duration::from_millis(kill.milliseconds));
        drop(running);
        self.scene.await_nothing_runs();
        let began = self.latest_run() != known;
        let rows = if began { self.rows(Place::Old) } else { Vec::new() };
        self.found(rows, before, None)
    }

    /// The numbers of the commands that ever ran, in their order.
    fn noted(&self) -> Vec<u8> {
        let text = fs::read_to_string(self.scene.path("side/ran")).unwrap_or_default();
        text.lines().map(|line| line.parse().unwrap()).collect()
    }

    fn latest_run(&self) -> Option<String> {
        State::open_existing(&self.state_dir(Place::Old)).unwrap()?.latest_run(None).unwrap()
    }

    fn rows(&self, place: Place) -> Vec<NodeRow> {
        let state = State::open_existing(&self.state_dir(place)).unwrap().unwrap();
        let run = state.latest_run(None).unwrap().unwrap();
        state.node_records(&run).unwrap()
    }

    /// What a node left, as the store has it under a key, or what is wrong
    /// with it. Nothing changes in the store.
    pub fn left(&self, place: Place, key: &str) -> Result<Vec<Left>, String> {
        outputs(&Store::read_only(&self.store_dir(place)), key)
    }

    /// Notes under which key the product has a node.
    pub fn note_key(&mut self, identity: &Identity, key: &str) {
        self.keys.insert(identity.clone(), key.to_owned());
    }

    /// Harms by hand what the store has of a node; returns in words what was
    /// done, or nothing where there is nothing to harm.
    pub fn harm(&self, number: u8, harm: Harm, oracle: &mut Oracle) -> Option<String> {
        let (identity, outputs) = oracle.last(number)?;
        let (identity, result) = (identity.clone(), self.result(identity));
        match harm {
            Harm::LoseResult => {
                fs::remove_file(result).unwrap();
                oracle.forget(&identity);
                Some("its result is removed".to_owned())
            }
            Harm::CutResult => {
                let whole = fs::read(&result).unwrap();
                fs::write(&result, &whole[..whole.len() / 2]).unwrap();
                oracle.forget(&identity);
                Some("its result is cut in half".to_owned())
            }
            Harm::LoseOutput(output) => {
                let text = first_text(outputs, output);
                fs::remove_file(self.blob(&text)).ok()?;
                oracle.damaged.take_if(|damaged| *damaged == text);
                let said = format!("{text:?} is removed from the store");
                oracle.lost.insert(text);
                Some(said)
            }
            Harm::DamageOutput(output) => {
                let text = first_text(outputs, output);
                if oracle.damaged.is_some() {
                    return None;
                }
                fs::remove_file(self.blob(&text)).ok()?;
                fs::write(self.blob(&text), DAMAGE).unwrap();
                let said = format!("{text:?} is damaged in the store");
                oracle.damaged = Some(text);
                Some(said)
            }
        }
    }

    /// Looks how much of the harm a killed run has mended or found.
    pub fn look_at_harm(&self, oracle: &mut Oracle) {
        oracle.lost.retain(|text| !self.blob(text).is_file());
        let found = oracle
            .damaged
            .take_if(|text| !matches!(fs::read(self.blob(text)), Ok(bytes) if bytes != text.as_bytes()));
        oracle.lost.extend(found.filter(|text| !self.blob(text).is_file()));
    }

    fn blob(&self, text: &str) -> PathBuf {
        sharded(&self.store_dir(Place::Old).join("blobs"), &Digest::of(text).to_string())
    }

    fn result(&self, identity: &Identity) -> PathBuf {
        sharded(&self.store_dir(Place::Old).join("results"), &format!("{}.json", self.keys[identity]))
    }
}

fn first_text(outputs: &[Left], output: u8) -> String {
    outputs[usize::from(output) % outputs.len()].values().next().unwrap().clone()
}

fn sharded(dir: &Path, name: &str) -> PathBuf {
    dir.join(&name[..2]).join(name)
}

/// The outputs of a result, in the order of their names.
fn outputs(store: &Store, key: &str) -> Result<Vec<Left>, String> {
    let key = key.parse().map_err(|_| "it has no key".to_owned())?;
    let Recorded::Whole(result) = store.recorded(key).map_err(|error| error.to_string())? else {
        return Err("its result is not whole".to_owned());
    };
    let artifacts = result.outputs.into_values().map(|value| serde_json::from_value(value).unwrap());
    artifacts.map(|artifact| left(store, artifact).map_err(|error| error.to_string())).collect()
}

fn left(store: &Store, artifact: Artifact) -> Result<Left, StoreError> {
    // A damaged text is read as it is; that it differs is what is looked for.
    let text = |digest: Digest| match store.get_bytes(digest) {
        Err(StoreError::DamagedInPlace(_)) => Ok(DAMAGE.to_owned()),
        bytes => Ok::<_, StoreError>(String::from_utf8_lossy(&bytes?).into_owned()),
    };
    match artifact {
        Artifact::File { digest, .. } => Ok(Left::from([(String::new(), text(digest)?)])),
        Artifact::Tree(digest) => {
            let files = store.tree(digest)?.into_iter().filter_map(|entry| {
                let digest = entry.file()?;
                Some((entry.path.to_string_lossy().into_owned(), digest))
            });
            files.map(|(path, digest)| Ok((path, text(digest)?))).collect()
        }
        other => panic!("a command leaves no {other:?}"),
    }
}
