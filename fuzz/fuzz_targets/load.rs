//! Any bytes as the files of a plan, parted by lines of `%%`.

#![no_main]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path, PathBuf};

use libfuzzer_sys::fuzz_target;
use orchestrate::dag::Dag;
use orchestrate::plan::{Diagnostics, Files, Given, Plan, check, load_from, read_site};

/// What stands between two files.
const BETWEEN: &[u8] = b"\n%%\n";
/// Most instances of a plan.
const INSTANCES: usize = 100_000;

/// Files in memory: each path that is asked for first is the next file.
struct Parts<'a> {
    rest: RefCell<Vec<&'a [u8]>>,
    named: RefCell<BTreeMap<PathBuf, &'a [u8]>>,
}

impl<'a> Parts<'a> {
    fn of(bytes: &'a [u8]) -> Self {
        let mut parts = Vec::new();
        let mut rest = bytes;
        while let Some(at) = rest.windows(BETWEEN.len()).position(|window| window == BETWEEN) {
            parts.push(&rest[..=at]);
            rest = &rest[at + BETWEEN.len()..];
        }
        parts.push(rest);
        parts.reverse();
        Self { rest: RefCell::new(parts), named: RefCell::default() }
    }
}

impl Files for Parts<'_> {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let path = lexical(path);
        let mut named = self.named.borrow_mut();
        if !named.contains_key(&path) {
            let next = self.rest.borrow_mut().pop();
            named.insert(path.clone(), next.ok_or(io::ErrorKind::NotFound)?);
        }
        Ok(named[&path].to_vec())
    }
}

/// A path as a disk takes it: `a/../b` is `b`.
fn lexical(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

fn given() -> Given {
    Given {
        site: BTreeMap::from([("root".to_owned(), "/srv/${x}".to_owned())]),
        set: Vec::new(),
        variables: BTreeMap::from([("HOME".to_owned(), "/home".to_owned())]),
    }
}

fuzz_target!(|bytes: &[u8]| {
    let path = Path::new("plan.yaml");
    let given = given();
    let load = || load_from(&Parts::of(bytes), path, &given);
    match load() {
        Ok(plan) => {
            assert_eq!(names(&plan), names(&load().expect("it was loaded before")));
            assert!(plan.nodes.len() <= INSTANCES);
            match Dag::new(&plan) {
                Ok(dag) => assert_eq!(dag.order().len(), plan.nodes.len()),
                Err(wrong) => helps(&wrong),
            }
        }
        Err(wrong) => helps(&wrong),
    }
    if let Err(wrong) = check(&Parts::of(bytes), path, &given) {
        helps(&wrong);
    }
    if let Err(wrong) = read_site(&Parts::of(bytes), path) {
        helps(&wrong);
    }
});

fn names(plan: &Plan) -> Vec<&str> {
    plan.nodes.keys().map(String::as_str).collect()
}

/// Every mistake is inside its file, says the way out and can be shown.
fn helps(wrong: &Diagnostics) {
    assert!(!wrong.0.is_empty(), "it is refused for no reason");
    for diagnostic in &wrong.0 {
        let (slip, text) = (&diagnostic.slip, &diagnostic.file.text);
        assert!(slip.help.as_ref().is_some_and(|help| !help.is_empty()), "no way out: {slip:?}");
        assert!(!slip.message.is_empty(), "no words: {slip:?}");
        if slip.at.line > 0 {
            let lines = text.split('\n').count();
            assert!(slip.at.line as usize <= lines, "outside of the file, which has {lines} lines: {slip:?}");
        }
    }
    let shown = wrong.render(100, false);
    assert!(!shown.is_empty() && !wrong.to_string().is_empty());
}
