//! The shipped plan for real: real corpus, real engine, real AIPerf, one row
//! of each category.
//!
//! What was fetched once is reused, because the store is the user's; the load
//! itself runs every time, because its seed is new every time.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::print_stdout, reason = "it takes minutes and says what it is doing")]

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use orchestrate::gguf::Gguf;
use orchestrate::process::tree;
use rustix::process::Signal;
use serde_json::Value;
use support::schemas::assert_evidence_fits;
use support::{Ended, PROJECT, Running, Scene, signal, wait_for};

/// A first run downloads everything.
const LONG: Duration = Duration::from_secs(1200);
/// How soon nothing is left of a run that was killed.
const PROMPT: Duration = Duration::from_secs(2);
const PLAN: &str = "plans/stage-f.yaml";
/// The evidence files of a subject, and the kind of node that wrote each.
const ROLES: [(&str, &str); 10] = [
    ("host", "probe_host"),
    ("client", "python_env"),
    ("corpus", "pin_corpus"),
    ("bundle", "build_bundle"),
    ("validation", "validate"),
    ("server", "serve"),
    ("warmup", "warmup"),
    ("load", "aiperf"),
    ("correlation", "correlate"),
    ("audit", "audit_speculation"),
];

#[test]
fn stage_f_runs_end_to_end() {
    let stage = Stage { scene: Scene::of_the_user() };
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    stage.qualifies(seed);
    stage.reuses_everything(seed);
    stage.survives_a_killed_server(seed + 1);
    stage.leaves_nothing_when_it_is_killed(seed + 1);
    stage.repeats_only_what_is_needed(seed + 1);
    a_damaged_model_is_not_validated(&stage);
}

struct Stage {
    scene: Scene,
}

impl Stage {
    fn start(&self, seed: u64) -> Running {
        let plan = format!("{PROJECT}/{PLAN}");
        let seed = format!("random_seed={seed}");
        let set =
            ["--set", "per_category=1", "--set", "warmup_requests=1", "--set", "max_tokens=16", "--set"];
        self.scene.start(&[&["apply", plan.as_str()], &set[..], &[seed.as_str()]].concat())
    }

    fn run(&self, seed: u64) -> Ended {
        let ended = self.start(seed).wait();
        println!("  exit {:?} after {:.1} s", ended.code, ended.took.as_secs_f64());
        self.scene.assert_nothing_runs();
        ended
    }

    /// Where the subject of a target stands.
    fn subject(&self, target: &str) -> Value {
        subject(&self.scene, target)
    }

    fn qualifies(&self, seed: u64) {
        println!("the plan with one row of each category");
        let ended = self.run(seed);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        assert!(ended.nodes("succeeded").contains(&"load[target=llama-cpp]"), "{}", ended.stderr);
        let llama = self.subject("llama-cpp");
        assert_eq!(llama["status"], "aiperf-qualified");
        assert_eq!(llama["mode"], "ordinary");
        assert_eq!(llama["missing"], Value::Array(Vec::new()));
        assert!(llama["evidence"].as_array().unwrap().len() >= ROLES.len() - 1, "{llama}");
        assert_eq!(self.subject("trtmc")["status"], "planned");
        self.check_matrix();
        self.check_report();
        for (node, kind, document) in self.scene.evidence() {
            assert_evidence_fits(&document, &kind, &node);
        }
    }

    fn check_matrix(&self) {
        let matrix: Value = serde_json::from_str(&self.report("coverage.json")).unwrap();
        let cell = |target: &str, key: &str| {
            let column = matrix["columns"].as_array().unwrap().iter().position(|c| c["key"] == key).unwrap();
            let row = matrix["rows"].as_array().unwrap().iter().find(|row| row["target"] == target).unwrap();
            row["cells"][column].clone()
        };
        let value = |key: &str| cell("llama-cpp", key)["value"].as_str().unwrap_or_default().to_owned();
        for (key, expected) in [
            ("sent_once", "8 of 8"),
            ("exact_text", "8 of 8"),
            ("unmatched_client", "0"),
            ("errors", "0"),
            ("duplicates", "0"),
            ("warmup", "1 of 1"),
        ] {
            assert!(value(key).starts_with(expected), "{key}: {}", cell("llama-cpp", key));
        }
        for key in ["accept_length", "accept_rate"] {
            let cell = cell("llama-cpp", key);
            assert!(
                cell["value"].is_null() && cell.to_string().contains("speculation was off"),
                "{key}: {cell}"
            );
        }
        assert!(cell("trtmc", "sent_once")["value"].is_null());
    }

    /// Every link of the matrix leads to a file, and every file is evidence.
    fn check_report(&self) {
        let page = self.report("coverage.md");
        let links = page.lines().filter_map(|line| line.strip_prefix("[e")?.split_once("]: "));
        let links: Vec<_> = links.map(|(_, link)| link).collect();
        assert!(links.len() > ROLES.len(), "{links:?}");
        for link in links {
            let name = Path::new(link).file_stem().unwrap().to_str().unwrap();
            let (_, kind) = ROLES.iter().find(|(role, _)| *role == name).unwrap();
            assert_evidence_fits(&serde_json::from_str(&self.report(link)).unwrap(), kind, link);
        }
        for (role, _) in ROLES {
            assert!(page.contains(&format!("/llama-cpp/ordinary/{role}.json")), "no cell links to {role}");
        }
        for name in ["coverage.csv", "coverage.html"] {
            assert!(self.report(name).contains("8 of 8"), "{name}");
        }
    }

    fn report(&self, name: &str) -> String {
        let path = self.scene.path(".orchestrate/reports/stage-f").join(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    fn reuses_everything(&self, seed: u64) {
        println!("the same again");
        let ended = self.run(seed);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        for outcome in ["started", "doing", "succeeded", "failed", "skipped"] {
            assert_eq!(ended.nodes(outcome), [""; 0], "{}", ended.stderr);
        }
        assert!(ended.nodes("reused").contains(&"server[target=llama-cpp]"), "{}", ended.stderr);
        assert!(ended.took < Duration::from_secs(5), "it took {:?}", ended.took);
        assert_eq!(self.subject("llama-cpp")["status"], "aiperf-qualified");
    }

    fn survives_a_killed_server(&self, seed: u64) {
        println!("another load, and a server that is killed in the middle of it");
        let (running, records) = self.in_the_middle_of_the_load(seed);
        let server = server_below(running.pid());
        println!("  SIGKILL to process {server} after {} records", lines(&records));
        let killed = Instant::now();
        signal(server, Signal::KILL);
        let ended = running.wait();
        assert!(killed.elapsed() < Duration::from_secs(5), "it ended {:?} after the kill", killed.elapsed());
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        let failures = ended.failures();
        println!("  ended {:.1} s after the kill:\n{failures}", killed.elapsed().as_secs_f64());
        assert!(failures.starts_with("failed      load[target=llama-cpp]"), "{failures}");
        assert!(failures.contains("killed by SIGKILL"), "{failures}");
        assert!(failures.lines().filter(|line| line.contains('│')).count() >= 5, "{failures}");
        self.scene.assert_nothing_runs();
        assert_eq!(self.subject("llama-cpp")["status"], "family-validated");
    }

    fn leaves_nothing_when_it_is_killed(&self, seed: u64) {
        println!("the same load, and an orchestrator that is killed in the middle of it");
        let (running, records) = self.in_the_middle_of_the_load(seed);
        let below = tree::descendants(running.pid());
        let commands: Vec<String> =
            below.iter().filter_map(|process| tree::command_of(process.identity.pid)).collect();
        for part in ["llama-server", "aiperf", "__supervise"] {
            assert!(commands.iter().any(|command| command.contains(part)), "{part}: {commands:#?}");
        }
        println!("  SIGKILL above {} processes after {} records", below.len(), lines(&records));
        signal(running.pid(), Signal::KILL);
        let killed = Instant::now();
        wait_for("the end of everything below it", PROMPT, || {
            below.iter().all(|process| !process.identity.is_alive()).then_some(())
        });
        println!("  all gone {} ms after the kill", killed.elapsed().as_millis());
        drop(running);
        self.scene.assert_nothing_runs();
    }

    /// A run whose load has brought its first answer, and where that is.
    fn in_the_middle_of_the_load(&self, seed: u64) -> (Running, PathBuf) {
        let before = self.scene.state().latest_run(None).unwrap();
        let running = self.start(seed);
        let records = wait_for("the first answer of the load", LONG, || {
            assert!(running.stderr().lines().all(|line| !line.starts_with("failed")), "{}", running.stderr());
            let records =
                self.load_records().filter(|_| self.scene.state().latest_run(None).unwrap() != before)?;
            (fs::metadata(&records).ok()?.len() > 0).then_some(records)
        });
        (running, records)
    }

    fn repeats_only_what_is_needed(&self, seed: u64) {
        println!("the load that was broken off, again");
        let ended = self.run(seed);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let again = [
            "audit[target=llama-cpp]",
            "correlate[target=llama-cpp]",
            "load[target=llama-cpp]",
            "matrix",
            "server[target=llama-cpp]",
            "warmup[target=llama-cpp]",
        ];
        assert_eq!(ended.nodes("succeeded"), again, "{}", ended.stderr);
        for node in ["bundle", "corpus", "validate"] {
            let node = format!("{node}[target=llama-cpp]");
            assert!(ended.nodes("reused").contains(&node.as_str()), "{node}: {}", ended.stderr);
        }
        assert!(ended.nodes("reused").contains(&"client"), "{}", ended.stderr);
        assert_eq!(self.subject("llama-cpp")["status"], "aiperf-qualified");
    }

    /// The records that AIPerf is writing now.
    fn load_records(&self) -> Option<PathBuf> {
        let run = self.scene.state().latest_run(None).unwrap()?;
        let load = self.scene.path(".orchestrate/runs").join(run).join("load[target=llama-cpp]");
        Some(load.join("work/export/profile_export.jsonl")).filter(|records| records.exists())
    }
}

fn subject(scene: &Scene, target: &str) -> Value {
    let status: Value = serde_json::from_str(&scene.run(&["status", "--json"]).stdout).unwrap();
    let subjects = status["subjects"].as_array().unwrap();
    subjects.iter().find(|subject| subject["target"] == target).unwrap().clone()
}

/// The one engine among the descendants of a process.
fn server_below(pid: u32) -> u32 {
    let descendants = tree::descendants(pid).into_iter().map(|process| process.identity.pid);
    let servers: Vec<u32> = descendants
        .filter(|pid| tree::command_of(*pid).is_some_and(|command| command.contains("llama-server")))
        .collect();
    assert_eq!(servers.len(), 1, "servers below process {pid}");
    servers[0]
}

fn lines(path: &Path) -> usize {
    fs::read_to_string(path).unwrap().lines().count()
}

/// The shipped target on a model of whose weights two in a thousand bytes are
/// zero: it serves and answers, and another implementation disagrees.
fn a_damaged_model_is_not_validated(stage: &Stage) {
    println!("a damaged model");
    let bundle = stage.scene.evidence().into_iter().find(|(_, kind, _)| kind == "build_bundle").unwrap().2;
    let model = stage.scene.store().get_bytes(bundle["model"]["digest"].as_str().unwrap().parse().unwrap());
    let scene = Scene::of_the_user();
    let damaged = scene.write("damaged.gguf", damaged(&model.unwrap()));
    let folder = format!("{PROJECT}/plans/targets/");
    let target = fs::read_to_string(format!("{folder}llama-cpp.yaml")).unwrap();
    let target = target.replace("path: llama-cpp/", &format!("path: {folder}llama-cpp/"));
    let target = replaced(&target, "      model: ${nodes.model}\n", "      model: ${nodes.damaged}\n");
    let fetch =
        format!("  damaged:\n    fetch: {{sources: [{{path: {}}}]}}\n\n  bundle:\n", damaged.display());
    scene.write("llama-cpp.yaml", replaced(&target, "  bundle:\n", &fetch));
    let plan = fs::read_to_string(format!("{PROJECT}/{PLAN}")).unwrap();
    let plan = replaced(&plan, "  - targets/llama-cpp.yaml\n", "  - llama-cpp.yaml\n");
    scene.write("plan.yaml", replaced(&plan, "  - targets/trtmc.yaml\n", ""));
    let ended = scene.run(&["apply", "plan.yaml"]);
    println!("  exit {:?} after {:.1} s:\n{}", ended.code, ended.took.as_secs_f64(), ended.failures());
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    scene.assert_nothing_runs();
    let validation = scene.evidence().into_iter().find(|(_, kind, _)| kind == "validate").unwrap().2;
    let check = |name: &str| {
        let checks = validation["checks"].as_array().unwrap();
        checks.iter().find(|check| check["name"] == name).unwrap().clone()
    };
    assert_eq!(check("repeat")["passed"], true, "a damaged model repeats itself");
    let agree = check("agree");
    assert_eq!(agree["passed"], false, "{agree}");
    assert!(agree["detail"]["decided"].as_u64().unwrap() > 0, "the check was not made: {agree}");
    let subject = subject(&scene, "llama-cpp");
    assert_eq!(subject["status"], "implemented");
    assert!(subject["missing"].to_string().contains("agree"), "{subject}");
}

/// A model of whose tensor bytes 0.2 % are zeroed, at scattered places.
fn damaged(model: &[u8]) -> Vec<u8> {
    let start = Gguf::from_reader(model, model.len() as u64).unwrap().data_start();
    let start = usize::try_from(start).unwrap();
    let mut damaged = model.to_vec();
    let weights = &mut damaged[start..];
    let mut state = 1_u64;
    for _ in 0..weights.len() / 500 {
        // Knuth's linear congruential generator: scattered and always the same.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let at = usize::try_from(state >> 33).unwrap() % weights.len();
        weights[at] = 0;
    }
    damaged
}

/// A text with its one occurrence of a passage replaced.
fn replaced(text: &str, passage: &str, by: &str) -> String {
    assert_eq!(text.matches(passage).count(), 1, "{passage:?} in the shipped file");
    text.replace(passage, by)
}
