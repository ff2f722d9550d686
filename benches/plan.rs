//! Loading, expanding and validating large plans: growth with the number of
//! nodes, and how much of it is reading YAML.
//!
//! `cargo bench --bench plan`

use std::collections::BTreeMap;
use std::fmt::Write;
use std::hint::black_box;
use std::io;
use std::path::{Path, PathBuf};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use orchestrate::dag::Dag;
use orchestrate::plan::{Files, Given, load_from, yaml};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Files in memory, so that the disk is not measured.
struct Memory(BTreeMap<PathBuf, String>);

impl Files for Memory {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.0.get(path).map(|text| text.clone().into_bytes()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// A plan in which every node is written out: files, and checks of them that
/// refer to a node before them.
fn written(nodes: usize) -> String {
    let mut text = "orchestrate: 1\nname: written\nparams: {revision: main}\nnodes:\n".to_owned();
    for node in 0..nodes / 2 {
        let _ = write!(
            text,
            "  file{node}:\n    fetch:\n      sources: [{{path: 'data-${{params.revision}}/{node}.jsonl'}}]\n  \
             bundle{node}:\n    build_bundle:\n      model: ${{nodes.file{node}}}\n      engine: {{llama_cpp: \
             {{precision: F16, context_length: 2048}}}}\n    needs: [file{}]\n",
            node / 2
        );
    }
    text
}

/// The same number of nodes, from two written ones and a sweep.
fn swept(nodes: usize) -> String {
    let steps: Vec<String> = (1..=nodes / 2).map(|step| step.to_string()).collect();
    format!(
        "orchestrate: 1\nname: swept\nparams: {{revision: main}}\nsweep: {{grid: {{step: [{}]}}}}\nnodes:\n  file:\n    fetch:\n      \
         sources: [{{path: 'data-${{params.revision}}/${{sweep.step}}.jsonl'}}]\n  bundle:\n    \
         build_bundle:\n      model: ${{nodes.file}}\n      engine: {{llama_cpp: {{precision: F16, \
         context_length: 2048}}}}\n    needs: [file]\n",
        steps.join(", ")
    )
}

fn load(text: &str) -> Dag {
    let path = Path::new("plan.yaml");
    let files = Memory(BTreeMap::from([(path.to_owned(), text.to_owned())]));
    let plan = load_from(&files, path, &Given::default()).unwrap_or_else(|wrong| panic!("{wrong}"));
    Dag::new(&plan).unwrap_or_else(|wrong| panic!("{wrong}"))
}

fn plans(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("plan");
    group.sample_size(20);
    for nodes in [1_000, 10_000, 50_000] {
        group.throughput(Throughput::Elements(nodes as u64));
        let text = written(nodes);
        group.bench_with_input(BenchmarkId::new("yaml", nodes), &text, |bencher, text| {
            bencher.iter(|| black_box(yaml::parse(text, &mut Vec::new())));
        });
        group.bench_with_input(BenchmarkId::new("written", nodes), &text, |bencher, text| {
            bencher.iter(|| black_box(load(text)));
        });
        group.bench_with_input(BenchmarkId::new("swept", nodes), &swept(nodes), |bencher, text| {
            bencher.iter(|| black_box(load(text)));
        });
    }
    group.finish();
}

criterion_group!(benches, plans);
criterion_main!(benches);
