//! A run that is killed at any moment, again and again, and continued: nothing
//! is lost, nothing that had finished runs twice, nothing is left running.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "support/double.rs"]
mod double;
mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use orchestrate::state::{NodeRow, State};
use rustix::process::Signal;
use serde_json::Value;
use support::{PROJECT, Running, Scene, files_below, signal, wait_for};

/// How often a run is killed in all.
const KILLS: usize = 300;
/// How many projects are tormented at the same time.
const CAMPAIGNS: usize = 2;
/// How many nodes run at the same time.
const JOBS: usize = 2;
/// How long what a killed run started may live on.
const SOON: Duration = Duration::from_secs(2);
/// How often a moment is looked for.
const LOOK: Duration = Duration::from_micros(200);
/// The step through the duration of a run that spreads any number of moments evenly.
const GOLDEN: f64 = 0.618_033_988_75;

/// Steps of every kind of write: small and large files, a tree, a service and
/// one that uses it. Each notes that it was started.
const PLAN: &str = "\
orchestrate: 1
name: crash
nodes:
  first:
    run:
      command: [sh, -c, 'echo first >> \"$RAN\"; echo one > out']
      outputs: {out: out}
      environment: {RAN: '${env.RAN}'}
  large:
    run:
      command: [sh, -c, 'echo large >> \"$RAN\"; head -c 8000000 /dev/zero > out']
      outputs: {out: out}
      environment: {RAN: '${env.RAN}'}
  tree:
    run:
      command: [sh, -c, 'echo tree >> \"$RAN\"; mkdir out; for n in 1 2 3 4 5 6 7 8 9 10 11 12; do cp in out/$n; echo $n >> out/$n; done']
      inputs: {in: '${nodes.first.out}'}
      outputs: {out: out}
      environment: {RAN: '${env.RAN}'}
  model:
    fetch:
      sources: [{path: tiny.gguf}]
  bundle:
    build_bundle:
      model: ${nodes.model}
      engine:
        llama_cpp:
          program: '${env.PROJECT}/tests/doubles/llama_server.py'
          precision: Q4_1
          context_length: 64
  server:
    serve:
      bundle: ${nodes.bundle}
      model_name: good
  ask:
    run:
      command: [sh, -c, 'echo ask >> \"$RAN\"; test -n \"$1\" && echo served > out', sh, '${nodes.server.url}']
      outputs: {out: out}
      environment: {RAN: '${env.RAN}'}
  last:
    run:
      command: [sh, -c, 'echo last >> \"$RAN\"; cat ask tree/* > out; wc -c < large >> out']
      inputs: {ask: '${nodes.ask.out}', tree: '${nodes.tree.out}', large: '${nodes.large.out}'}
      outputs: {out: out}
      environment: {RAN: '${env.RAN}'}
";

/// When a run is killed.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// After a part of the time that the plan takes.
    After(Duration),
    /// When the store begins to write something.
    StoreWrites,
    /// When the store has one result more.
    ResultStored,
    /// When the database's log has changed so many times.
    Commits(usize),
    /// When the server's process is there.
    ServiceStarts,
}

impl Moment {
    /// The moment of a kill: half of them spread evenly over the first half of
    /// the time that the whole plan takes, which is more than what is left of
    /// it mostly takes, and half of them in the middle of what must not be torn.
    fn of(kill: usize, plan_takes: Duration) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "a few hundred kills")]
        let part = (kill as f64 * GOLDEN).fract();
        match kill % 8 {
            1 => Self::StoreWrites,
            3 => Self::ResultStored,
            5 => Self::Commits(1 + kill / 8 % 13),
            7 => Self::ServiceStarts,
            _ => Self::After(plan_takes.mul_f64(part / 2.0)),
        }
    }
}

/// A project whose runs are killed until its plan is done.
struct Project {
    scene: Scene,
    kills: usize,
    /// How often each node had been started when it was recorded as finished.
    finished: BTreeMap<String, usize>,
}

impl Project {
    fn new() -> Self {
        let scene = Scene::isolated().with("PROJECT", PROJECT);
        let ran = scene.path("ran");
        scene.write("tiny.gguf", double::model());
        scene.write("plan.yaml", PLAN);
        Self { scene: scene.with("RAN", ran), kills: 0, finished: BTreeMap::new() }
    }

    fn start(&self) -> Running {
        self.scene.start(&["apply", "plan.yaml", "--jobs", &JOBS.to_string()])
    }

    /// Runs until the moment comes and kills the run. Returns whether it came:
    /// a run that ends before has to end well.
    fn killed_at(&mut self, moment: Moment) -> bool {
        let before = self.seen();
        let running = self.start();
        let begun = Instant::now();
        let mut commits = 0;
        let mut log = before.log;
        while running.is_running() {
            let now = || self.seen();
            let is_there = match moment {
                Moment::After(after) => begun.elapsed() >= after,
                Moment::StoreWrites => !files_below(&self.scene.path("store/tmp")).is_empty(),
                Moment::ResultStored => now().results > before.results,
                Moment::Commits(wanted) => {
                    let changed = now().log;
                    commits += usize::from(changed != std::mem::replace(&mut log, changed));
                    commits >= wanted
                }
                Moment::ServiceStarts => {
                    self.scene.processes().iter().any(|(_, command)| command.contains("llama_server.py"))
                }
            };
            if is_there && running.is_running() {
                signal(running.pid(), Signal::KILL);
                running.wait();
                self.kills += 1;
                return true;
            }
            std::thread::sleep(LOOK);
        }
        let ended = running.wait();
        assert_eq!(ended.code, Some(0), "after {} kills: {}", self.kills, ended.stderr);
        false
    }

    fn seen(&self) -> Seen {
        let log = self.scene.path(".orchestrate/state.db-wal").metadata().ok();
        Seen {
            log: log.and_then(|log| Some((log.len(), log.modified().ok()?))),
            results: files_below(&self.scene.path("store/results")).len(),
        }
    }

    /// What is true after every kill.
    fn assert_nothing_lost_or_left(&mut self, moment: Moment) {
        wait_for(&format!("the end of every process after {moment:?}"), SOON, || {
            self.scene.processes().is_empty().then_some(())
        });
        let started = self.started();
        for row in self.succeeded() {
            if let Some(key) = row.key.filter(|_| row.kind != "serve") {
                let result = self.scene.store().result(key.parse().unwrap()).unwrap();
                assert!(result.is_some(), "{} is done and its result is not there", row.node);
            }
            let times = started.get(&row.node).copied().unwrap_or(0);
            let then = *self.finished.entry(row.node.clone()).or_insert(times);
            assert_eq!(times, then, "{} had finished and ran again before {moment:?}", row.node);
        }
    }

    /// The records of nodes that finished, in any run.
    fn succeeded(&self) -> Vec<NodeRow> {
        let records = State::read(&self.scene.path(".orchestrate"), |state| {
            let runs = state.latest_runs(u32::MAX)?;
            runs.iter().map(|run| state.node_records(run)).collect::<Result<Vec<_>, _>>()
        });
        let records = records.unwrap().unwrap_or_default();
        records.into_iter().flatten().filter(|row| row.outcome == "succeeded").collect()
    }

    /// How often each node was started.
    fn started(&self) -> BTreeMap<String, usize> {
        let mut started = BTreeMap::new();
        for node in fs::read_to_string(self.scene.path("ran")).unwrap_or_default().lines() {
            *started.entry(node.to_owned()).or_default() += 1;
        }
        started
    }

    /// What is true when the plan is done.
    fn assert_done_like(&self, undisturbed: &BTreeMap<String, Value>) {
        assert_eq!(&outputs(&self.scene), undisturbed, "after {} kills", self.kills);
        let repeated: usize = self.started().values().map(|times| times - 1).sum();
        assert!(repeated <= self.kills * JOBS, "{repeated} repeated by {} kills", self.kills);
        let work: Vec<_> = directories_named(&self.scene.path(".orchestrate/runs"), "work");
        assert!(work.is_empty(), "half-done work was left: {work:?}");
        assert!(self.scene.state().unfinished_runs().unwrap().is_empty());
        assert!(self.scene.state().leases().unwrap().is_empty());
        self.scene.assert_nothing_runs();
    }
}

/// What is on disk at a moment.
#[derive(PartialEq)]
struct Seen {
    log: Option<(u64, SystemTime)>,
    results: usize,
}

/// What each command left, by node.
fn outputs(scene: &Scene) -> BTreeMap<String, Value> {
    let commands = scene.evidence().into_iter().filter(|(_, kind, _)| kind == "run");
    commands.map(|(node, _, document)| (node, document["outputs"].clone())).collect()
}

fn directories_named(dir: &Path, name: &str) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let below = |path: std::path::PathBuf| match path.is_dir() {
        true if path.ends_with(name) => vec![path],
        true => directories_named(&path, name),
        false => Vec::new(),
    };
    entries.flat_map(below).collect()
}

/// Project after project, killed until there were enough kills.
struct Campaign<'a> {
    plan_takes: Duration,
    undisturbed: &'a BTreeMap<String, Value>,
    /// The number of the next moment, shared by all campaigns.
    next: &'a AtomicUsize,
    kills: usize,
    projects: usize,
    repeated: usize,
}

impl<'a> Campaign<'a> {
    fn new(plan_takes: Duration, undisturbed: &'a BTreeMap<String, Value>, next: &'a AtomicUsize) -> Self {
        Self { plan_takes, undisturbed, next, kills: 0, projects: 0, repeated: 0 }
    }

    fn run(mut self) -> Self {
        while self.kills < KILLS / CAMPAIGNS {
            let mut project = Project::new();
            // A moment that does not come any more lets the plan be done.
            loop {
                let moment = Moment::of(self.next.fetch_add(1, Ordering::Relaxed), self.plan_takes);
                if !project.killed_at(moment) {
                    break;
                }
                project.assert_nothing_lost_or_left(moment);
            }
            project.assert_done_like(self.undisturbed);
            self.kills += project.kills;
            self.projects += 1;
            self.repeated += project.started().values().map(|times| times - 1).sum::<usize>();
        }
        self
    }
}

#[test]
fn a_run_that_is_killed_three_hundred_times_loses_nothing_and_repeats_only_what_it_was_doing() {
    let reference = Project::new();
    let begun = Instant::now();
    let ended = reference.start().wait();
    let plan_takes = begun.elapsed();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let undisturbed = outputs(&reference.scene);
    assert_eq!(undisturbed.keys().collect::<Vec<_>>(), ["ask", "first", "large", "last", "tree"]);

    let next = AtomicUsize::new(0);
    let campaign = || Campaign::new(plan_takes, &undisturbed, &next).run();
    let (one, other) = std::thread::scope(|scope| {
        let other = scope.spawn(campaign);
        (campaign(), other.join().unwrap())
    });
    println!(
        "{} kills of {} projects whose plan takes {plan_takes:?}: {} nodes repeated, {:?}",
        one.kills + other.kills,
        one.projects + other.projects,
        one.repeated + other.repeated,
        begun.elapsed()
    );
    assert!(one.kills + other.kills >= KILLS);
}
