//! Plans that stand for far more than they hold, and mistakes in great
//! numbers: each is answered at once, in words.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use orchestrate::plan::{Diagnostics, Files, Given, load_from};

/// Far more than any of them takes, and far less than one that grows.
const LONGEST: Duration = Duration::from_secs(20);
const NODE: &str = "{fetch: {sources: [{path: x}]}}";

/// Files in memory by their names, wherever they are looked for.
struct Memory {
    texts: BTreeMap<String, String>,
    reads: Cell<usize>,
}

impl Files for Memory {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.reads.set(self.reads.get() + 1);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let text = self.texts.get(name.as_ref()).ok_or(io::ErrorKind::NotFound)?;
        Ok(text.clone().into_bytes())
    }
}

fn files(texts: &[(&str, String)]) -> Memory {
    let texts = texts.iter().map(|(name, text)| ((*name).to_owned(), text.clone())).collect();
    Memory { texts, reads: Cell::new(0) }
}

fn plan(rest: &str) -> String {
    format!("orchestrate: 1\nname: p\n{rest}\n")
}

fn fragment(rest: &str) -> String {
    format!("orchestrate: 1\nfragment: f\n{rest}\n")
}

/// What is wrong with a plan, found and shown in time.
fn wrong(files: &Memory) -> (Diagnostics, String) {
    let begun = Instant::now();
    let wrong = load_from(files, Path::new("plan.yaml"), &Given::default()).unwrap_err();
    let shown = wrong.render(100, false);
    assert!(begun.elapsed() < LONGEST, "{:?}: {shown}", begun.elapsed());
    assert!(shown.len() < 1 << 20, "{} bytes are shown", shown.len());
    (wrong, shown)
}

fn refused(rest: &str, words: &str) {
    let (_, shown) = wrong(&files(&[("plan.yaml", plan(rest))]));
    assert!(shown.contains(words), "{shown}");
}

/// One text for each number, joined.
fn each(count: usize, text: impl Fn(usize) -> String) -> String {
    (0..count).fold(String::new(), |mut all, number| {
        all.push_str(&text(number));
        all
    })
}

#[test]
fn fragments_that_include_each_other_have_an_end() {
    let nodes = format!("nodes: {{a: {NODE}}}");
    let tree =
        |next: usize| fragment(&format!("include: [{}]\nnodes: {{}}", format!("f{next}.yaml, ").repeat(10)));
    let mut texts = vec![("plan.yaml", plan(&format!("include: [f0.yaml]\n{nodes}")))];
    let names: Vec<String> = (0..12).map(|number| format!("f{number}.yaml")).collect();
    texts.extend(names.iter().enumerate().map(|(number, name)| (name.as_str(), tree(number + 1))));
    let memory = files(&texts);
    assert!(wrong(&memory).1.contains("more than 1000 files"));
    assert!(memory.reads.get() <= 1000);

    // The same file by a longer path each time.
    let again = fragment("include: [s/../f.yaml, s/../f.yaml]\nnodes: {}");
    let memory = files(&[("plan.yaml", plan(&format!("include: [f.yaml]\n{nodes}"))), ("f.yaml", again)]);
    assert!(wrong(&memory).1.contains("include each other"));
    assert!(memory.reads.get() <= 1000);

    let many = plan(&format!("include: [{}]\n{nodes}", "f.yaml, ".repeat(20_000)));
    let memory = files(&[("plan.yaml", many), ("f.yaml", fragment("nodes: {}"))]);
    assert_eq!(wrong(&memory).0.0.len(), 1);
}

#[test]
fn a_reference_does_not_make_a_long_text_endless() {
    let long = "x".repeat(1 << 20);
    let path = |text: &str| format!("nodes: {{a: {{fetch: {{sources: [{{path: '{text}'}}]}}}}}}");
    refused(&format!("params: {{a: {long}}}\n{}", path(&"${params.a}".repeat(1000))), "more than 64 MiB");
    let sweep = format!("sweep: {{grid: {{a: {{one: {long}}}}}}}");
    refused(&format!("{sweep}\n{}", path(&"${sweep.a}".repeat(1000))), "instances are too long");
    let steps = each(5000, |step| format!("{step}, "));
    let text = format!("${{sweep.a}}{long}");
    refused(&format!("sweep: {{grid: {{a: [{steps}]}}}}\n{}", path(&text)), "instances are too long");
    refused(&format!("a: &a {long}\nb: [{}]", "*a, ".repeat(1000)), "more than 1000000 values");
    refused(
        &format!("a: &a {{{}: 1}}\nb: [{}]", &long[..1000], "*a, ".repeat(100_000)),
        "more than 1000000 values",
    );
}

#[test]
fn an_author_is_told_the_first_of_many_mistakes() {
    let lines = |text: fn(usize) -> String| each(20_000, text);
    let plain = format!("nodes: {{a: {NODE}}}");
    for (rest, words) in [
        (format!("{plain}\n{}", lines(|n| format!("k{n}: 1\n"))), "unknown key"),
        (format!("{plain}\n{}", "a: 1\n".repeat(20_000)), "twice"),
        (format!("params: {{{}}}\n{plain}", lines(|n| format!("p{n}: 1, "))), "nothing refers to"),
        (
            format!(
                "params: {{{}}}\nnodes: {{a: {{fetch: {{sources: [{{path: '{}'}}]}}}}}}",
                lines(|n| format!("p{n}: 1, ")),
                lines(|n| format!("${{params.q{n}}}"))
            ),
            "no parameter",
        ),
        (
            format!(
                "nodes: {{a: {NODE}, b: {{needs: [{}], fetch: {{sources: []}}}}}}",
                lines(|n| format!("m{n}, "))
            ),
            "no node",
        ),
        (
            format!("nodes: {{{}}}", lines(|n| format!("n{n}: {{fetch: {{sources: [{{path: {n}}}]}}}}, "))),
            "expected text",
        ),
        (
            format!(
                "nodes: {{m: {{probe_host: {{}}}}, {}}}",
                lines(|n| format!(
                    "n{n}: {{build_bundle: {{model: '${{nodes.m}}', engine: {{llama_cpp: {{precision: F16, context_length: 9}}}}}}}}, "
                ))
            ),
            "needs a fetch node",
        ),
    ] {
        let (wrong, shown) = wrong(&files(&[("plan.yaml", plan(&rest))]));
        assert!(wrong.0.len() <= 101 && shown.contains(words), "{shown}");
        assert!(shown.contains("there are more mistakes"), "{shown}");
    }
}

#[test]
fn a_name_that_is_absurdly_long_is_not_repeated() {
    let long = "x".repeat(1 << 20);
    refused(&format!("? {long}\n: 1\nnodes: {{a: {NODE}}}"), "unknown key");
    refused(
        &format!("nodes: {{? {long} : {NODE}, b: {{needs: [y{long}], fetch: {{sources: []}}}}}}"),
        "no node",
    );
    let known = each(8, |number| format!("? {long}{number} : 1, "));
    let unknown = each(1000, |number| format!("${{params.q{number}}}"));
    refused(
        &format!("params: {{{known}}}\nnodes: {{a: {{fetch: {{sources: [{{path: '{unknown}'}}]}}}}}}"),
        "no parameter",
    );
}

#[test]
fn sweeps_and_targets_do_not_make_more_than_a_plan_has() {
    let steps = each(20_000, |step| format!("{step}, "));
    let node = "nodes: {n: {fetch: {sources: [{path: '${sweep.a}${sweep.b}'}]}}}";
    refused(&format!("sweep: {{grid: {{a: [{steps}], b: [{steps}]}}}}\n{node}"), "too many instances");
    let inherited = each(1000, |n| {
        format!(
            "n{}: {{fetch: {{sources: [{{path: '${{sweep.s{n}}}'}}]}}, needs: [n{n}], sweep: {{grid: {{s{n}: [1]}}}}}}, ",
            n + 1
        )
    });
    refused(&format!("nodes: {{n0: {NODE}, {inherited}}}"), "16 are the most");
    let names: Vec<String> = (0..900).map(|number| format!("t{number}.yaml")).collect();
    let target = |number: usize| format!("orchestrate: 1\ntarget: t{number}\nnodes: {{b: {NODE}}}\n");
    let mut rest = format!("targets: [{}]\nnodes:\n", names.join(", "));
    for number in 0..5000 {
        let _ = writeln!(rest, "  n{number}: {{fetch: {{sources: [{{path: '${{target.name}}'}}]}}}}");
    }
    let mut texts = vec![("plan.yaml", plan(&rest))];
    texts.extend(names.iter().enumerate().map(|(number, name)| (name.as_str(), target(number))));
    assert!(wrong(&files(&texts)).1.contains("for every target"));
}
