//! Putting a large file, and a directory of many small ones, beside the
//! programs that do only the digesting or only the copying.
//!
//! `cargo bench --bench store [-- large|small]`. The peers are `b3sum` (`cargo install b3sum
//! --locked`), `cp` and `tar`; without `b3sum` the large file is compared with
//! BLAKE3's own `update_mmap_rayon`. It needs about 7 GB below `$TMPDIR`, which
//! are free again afterwards, and ends with 1 if putting the file reaches less
//! than 0.8 of the throughput of digesting it.

#![expect(clippy::unwrap_used, reason = "a bench that cannot go on ends")]
#![expect(clippy::cast_precision_loss, reason = "amounts for people")]
#![expect(clippy::print_stdout, reason = "it prints its results")]

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use orchestrate::store::Store;

const LARGE: usize = 2 << 30;
const FILES: usize = 20_000;
const ROUNDS: usize = 7;
const FLOOR: f64 = 0.8;

/// Durations of one way to do something, over the rounds.
struct Timed {
    name: &'static str,
    took: Vec<Duration>,
}

impl Timed {
    fn new(name: &'static str) -> Self {
        Self { name, took: Vec::new() }
    }

    fn round(&mut self, work: impl FnOnce()) {
        let begun = Instant::now();
        work();
        self.took.push(begun.elapsed());
    }

    fn median(&self) -> f64 {
        let mut took = self.took.clone();
        took.sort();
        took[took.len() / 2].as_secs_f64()
    }

    fn show(&self, of: &str, amount: f64) {
        let seconds = self.median();
        let spread = self.took.iter().map(Duration::as_secs_f64);
        let (least, most) =
            spread.fold((f64::MAX, 0.0_f64), |(least, most), took| (least.min(took), most.max(took)));
        let name = self.name;
        println!("  {name:<34} {seconds:>7.3} s ({least:.3} to {most:.3})  {:>9.1} {of}/s", amount / seconds);
    }
}

fn main() -> ExitCode {
    let dir = tempfile::tempdir().unwrap();
    let only = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let wanted = |name: &str| only.as_ref().is_none_or(|only| only == name);
    if wanted("small") {
        small_files(dir.path());
    }
    let ratio = if wanted("large") { large_file(dir.path()) } else { 1.0 };
    if ratio < FLOOR {
        println!("a large file is put at {ratio:.2} of the throughput of digesting it; {FLOOR} is wanted");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// In turns: digest the file, take it into the store, copy it into the store,
/// copy it. Returns the throughput of taking it over that of digesting it.
fn large_file(dir: &Path) -> f64 {
    println!("a file of {} MiB, in turns, median of {ROUNDS}", LARGE >> 20);
    let file = dir.join("large");
    write_large(&file);
    let store = Store::open(&dir.join("store")).unwrap();
    let has_b3sum = run(Command::new("b3sum").arg("--version"));
    let (mut digest, mut take) =
        (Timed::new(if has_b3sum { "b3sum" } else { "blake3 update_mmap_rayon" }), Timed::new("take_file"));
    let (mut put, mut copy) = (Timed::new("put_file"), Timed::new("cp, then sync of the copy"));
    let target = dir.join("copy");
    for _ in 0..ROUNDS {
        digest.round(|| {
            if has_b3sum {
                assert!(run(Command::new("b3sum").arg(&file)));
            } else {
                blake3::Hasher::new().update_mmap_rayon(&file).unwrap();
            }
        });
        let mut name = None;
        take.round(|| name = Some(store.take_file(&file).unwrap()));
        let blob = store.verified_path(name.unwrap()).unwrap();
        fs::rename(&blob, &file).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    }
    for _ in 0..3 {
        let mut name = None;
        put.round(|| name = Some(store.put_file(&file).unwrap()));
        fs::remove_file(store.verified_path(name.unwrap()).unwrap()).unwrap();
        copy.round(|| {
            assert!(run(Command::new("cp").arg(&file).arg(&target)));
            File::open(&target).unwrap().sync_all().unwrap();
        });
        fs::remove_file(&target).unwrap();
    }
    fs::remove_file(&file).unwrap();
    for timed in [&digest, &take, &put, &copy] {
        timed.show("MB", LARGE as f64 / 1e6);
    }
    let ratio = digest.median() / take.median();
    println!("  take_file reaches {ratio:.2} of the throughput of {}", digest.name);
    if !has_b3sum {
        println!("  b3sum is not there; `cargo install b3sum --locked` brings it");
    }
    ratio
}

/// Putting a tree for the first time, again, and beside reading and copying it.
fn small_files(dir: &Path) {
    println!("a directory of {FILES} small files, median of 3");
    let tree = dir.join("tree");
    for file in 0..FILES {
        let place = tree.join(format!("d{}", file / 200));
        fs::create_dir_all(&place).unwrap();
        fs::write(place.join(format!("f{file}")), format!("{file}\n").repeat(file % 500 + 1)).unwrap();
    }
    let mut put = Timed::new("put_tree, everything new");
    let mut again = Timed::new("put_tree, everything there");
    let mut bring = Timed::new("materialise_tree");
    let mut read = Timed::new("tar, to nothing");
    let mut copy = Timed::new("cp -a, then sync");
    for round in 0..3 {
        let root = dir.join(format!("store{round}"));
        let store = Store::open(&root).unwrap();
        let mut name = None;
        put.round(|| name = Some(store.put_tree(&tree).unwrap()));
        again.round(|| assert_eq!(store.put_tree(&tree).unwrap(), name.unwrap()));
        let (back, copied) = (dir.join("back"), dir.join("copied"));
        bring.round(|| store.materialise_tree(name.unwrap(), &back).unwrap());
        // Through a pipe: tar does not read what goes to /dev/null.
        read.round(|| {
            let script = "tar -cf - \"$0\" 2>/dev/null | cat >/dev/null";
            assert!(run(Command::new("sh").args(["-c", script]).arg(&tree)));
        });
        copy.round(|| {
            assert!(run(Command::new("cp").arg("-a").arg(&tree).arg(&copied)));
            assert!(run(Command::new("sync").arg("-f").arg(&copied)));
        });
        for dir in [&root, &back, &copied] {
            fs::remove_dir_all(dir).unwrap();
        }
    }
    for timed in [&put, &again, &bring, &read, &copy] {
        timed.show("files", FILES as f64);
    }
}

/// A file of which no part is like another, on the disk and in memory.
fn write_large(path: &Path) {
    let mut block = vec![0; 8 << 20];
    let mut file = File::create(path).unwrap();
    let mut stream = blake3::Hasher::new().finalize_xof();
    for _ in 0..LARGE / block.len() {
        stream.fill(&mut block);
        file.write_all(&block).unwrap();
    }
    file.sync_all().unwrap();
}

fn run(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).status().is_ok_and(|status| status.success())
}
