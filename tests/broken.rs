//! What an author sees for every mistake that a plan can have: each plan below
//! `tests/broken/` is wrong, and the snapshot beside it is all that the real
//! binary says about it.
//!
//! `NAME.yaml` is a plan; `NAME/` holds the files of a plan, checked by
//! `plan.yaml`, or together where there is none, with `site.yaml` as the site.
//! A first line `# --set NAME=VALUE` gives further arguments.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fmt::Write as _;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use support::{PROJECT, Scene, files_below};

/// Cases that are shown to authors; fewer means that some got lost.
const LEAST: usize = 80;
/// Runs at the same time.
const THREADS: usize = 4;
/// Words of programmers, which help no author.
const JARGON: [&str; 23] = [
    "u8",
    "u16",
    "u32",
    "u64",
    "i64",
    "usize",
    "f64",
    "bool",
    "String",
    "struct",
    "enum",
    "variant",
    "Option",
    "tuple",
    "newtype",
    "deserialize",
    "serde",
    "visitor",
    "untagged",
    "field",
    "scalar",
    "token",
    "scanner",
];
/// The same, in several words.
const PHRASES: [&str; 6] =
    ["block mapping", "flow mapping", "block sequence", "flow sequence", "unit struct", "unit value"];

/// A plan that is wrong.
struct Case {
    name: String,
    /// Its files by their names in the scene.
    files: Vec<(String, Vec<u8>)>,
}

impl Case {
    /// The case at a path of `tests/broken/`.
    fn read(path: &Path) -> Self {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let content = |file: &Path| fs::read(file).unwrap();
        let files = if path.is_dir() {
            let named = |file: &PathBuf| file.strip_prefix(path).unwrap().to_str().unwrap().to_owned();
            files_below(path).iter().map(|file| (named(file), content(file))).collect()
        } else {
            vec![("plan.yaml".to_owned(), content(path))]
        };
        Self { name, files }
    }

    fn plan(name: &str, plan: impl Into<Vec<u8>>) -> Self {
        Self { name: name.to_owned(), files: vec![("plan.yaml".to_owned(), plan.into())] }
    }

    /// Whether a file belongs to the case.
    fn has(&self, name: &str) -> bool {
        self.files.iter().any(|(known, _)| known == name)
    }

    fn arguments(&self) -> Vec<String> {
        let mut arguments = vec!["validate".to_owned()];
        arguments.push(if self.has("plan.yaml") { "plan.yaml" } else { "." }.to_owned());
        if self.has("plan.yaml") && self.has("site.yaml") {
            arguments.extend(["--site", "site.yaml"].map(str::to_owned));
        }
        let plan = self.files.iter().find(|(name, _)| name == "plan.yaml");
        let first = plan.and_then(|(_, plan)| plan.split(|byte| *byte == b'\n').next()).unwrap_or_default();
        let given = std::str::from_utf8(first).ok().and_then(|line| line.strip_prefix("# --"));
        if let Some(given) = given {
            arguments.extend(format!("--{given}").split_whitespace().map(str::to_owned));
        }
        arguments
    }

    /// What the binary says; it is an error that stands somewhere, offers a
    /// way out, is in plain words, and leaves nothing behind.
    fn said(&self) -> String {
        let scene = Scene::isolated();
        for (name, content) in &self.files {
            scene.write(name, content);
        }
        let before = own_files(&scene);
        let arguments = self.arguments();
        let ended = scene.run(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        let said = ended.stderr;
        assert_eq!(ended.code, Some(2), "{}: {said}{}", self.name, ended.stdout);
        assert_eq!(own_files(&scene), before, "{}: validating left something behind", self.name);
        self.assert_placed(&said);
        let mistakes = said.lines().filter(|line| line.trim_start().starts_with("× ")).count();
        let helps = said.lines().filter(|line| line.trim_start().starts_with("help: ")).count();
        assert!(mistakes > 0 && helps == mistakes, "{}: a mistake without a way out:\n{said}", self.name);
        assert_plain(&self.name, &said);
        said
    }

    fn assert_placed(&self, said: &str) {
        let is_whole = !said.contains("─[") && !said.contains(".yaml:");
        let may_be_whole = self.name.contains("-file") || self.arguments().iter().any(|one| one == "--set");
        assert!(!is_whole || may_be_whole, "{}: no place is named:\n{said}", self.name);
        for line in said.lines().filter(|line| line.contains("─[")) {
            let place = line.split('[').nth(1).unwrap().trim_end_matches(']');
            let parts: Vec<&str> = place.rsplitn(3, ':').collect();
            let [column, line, file] = parts.as_slice() else { panic!("{}: {place} is no place", self.name) };
            assert!(self.has(file.trim_start_matches("./")), "{}: {place} is in no file", self.name);
            assert!([line, column].iter().all(|part| part.parse::<usize>().is_ok()), "{place}");
        }
    }

    fn check(&self) {
        let said = self.said();
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path("broken/snapshots");
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings.bind(|| insta::assert_snapshot!(self.name.clone(), said));
    }
}

/// The files of a scene without the output of its runs.
fn own_files(scene: &Scene) -> Vec<PathBuf> {
    let mut files = files_below(&scene.path(""));
    files.retain(|file| ![scene.path("stdout"), scene.path("stderr")].contains(file));
    files.sort();
    files
}

/// Messages and help, without the lines of the plan that are shown.
fn assert_plain(name: &str, said: &str) {
    let is_shown = |line: &&str| ["│", "·", "╭", "╰"].iter().any(|mark| line.contains(mark));
    for line in said.lines().filter(|line| !is_shown(line)) {
        let of_author: String = line.split('`').step_by(2).collect::<Vec<_>>().join(" ");
        let mut words = of_author.split(|c: char| !c.is_alphanumeric() && c != '_');
        assert!(!words.any(|word| JARGON.contains(&word)), "{name}: words of programmers: {line}");
        assert!(!PHRASES.iter().any(|phrase| line.contains(phrase)), "{name}: words of programmers: {line}");
    }
}

/// The cases of `tests/broken/`, by name.
fn cases() -> Vec<Case> {
    let entries = fs::read_dir(Path::new(PROJECT).join("tests/broken")).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.file_name().unwrap() != "snapshots");
    paths.sort();
    paths.iter().map(|path| Case::read(path)).collect()
}

#[test]
fn every_mistake_is_shown_at_its_place_with_a_way_out() {
    let cases = cases();
    assert!(cases.len() >= LEAST, "only {} cases", cases.len());
    let waiting = Mutex::new(cases.iter());
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().unwrap().next();
                    let Some(case) = next else { break };
                    if catch_unwind(AssertUnwindSafe(|| case.check())).is_err() {
                        wrong.lock().unwrap().push(case.name.as_str());
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} cases: {}", wrong.len(), wrong.join(", "));
}

#[test]
fn every_snapshot_has_its_case() {
    let known: Vec<String> = cases().into_iter().map(|case| case.name).collect();
    for snapshot in files_below(&Path::new(PROJECT).join("tests/broken/snapshots")) {
        let name = snapshot.file_stem().unwrap().to_str().unwrap();
        assert!(known.iter().any(|known| known == name), "{} belongs to no case", snapshot.display());
    }
}

#[test]
fn a_bomb_of_aliases_is_refused_before_it_goes_off() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for n in 1..12 {
        let repeated = vec![format!("*a{}", n - 1); 10].join(", ");
        writeln!(bomb, "a{n}: &a{n} [{repeated}]").unwrap();
    }
    let said = Case::plan("a-bomb", format!("orchestrate: 1\nname: bomb\n{bomb}")).said();
    assert!(said.contains("stands for more than 1000000 values"), "{said}");
}

#[test]
fn a_hundred_thousand_levels_are_refused() {
    let tail = ["[", "{a: ", "- ", "? "].map(|opening| opening.repeat(100_000));
    for tail in tail {
        let said = Case::plan("too-deep", format!("orchestrate: 1\nname: deep\nnodes:\n  {tail}\n")).said();
        assert!(said.len() < 4000, "{} bytes are shown", said.len());
        assert!(said.contains("nested too deep") || said.contains("where a key is needed"), "{said}");
    }
}

#[test]
fn a_file_that_is_not_utf_8_names_the_line() {
    let plan = b"orchestrate: 1\nname: smoke\ndescription: caf\xe9\nnodes: {host: {probe_host: {}}}\n";
    let said = Case::plan("a-file-in-latin-1", *plan).said();
    assert!(said.contains("plan.yaml is not UTF-8 text") && said.contains("line 3"), "{said}");
}

#[test]
fn a_byte_order_mark_is_no_mistake() {
    let scene = Scene::isolated();
    scene.write("plan.yaml", "\u{feff}orchestrate: 1\nname: smoke\nnodes: {host: {probe_host: {}}}\n");
    let ended = scene.run(&["validate", "plan.yaml"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}
