//! Everything that is in the store, with what it takes and what it names.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rayon::prelude::*;
use serde_json::Value;

use super::{Store, StoreError, StoredResult, io_error};
use crate::value::Digest;

/// What the store holds. Bytes are those that are allocated, and what has
/// several names counts once.
#[derive(Debug, Default)]
pub(super) struct Inventory {
    pub results: Vec<ResultFile>,
    pub blobs: BTreeMap<Digest, Item>,
    pub environments: Vec<Environment>,
    pub aside: Vec<Item>,
    pub temporary: Vec<Item>,
}

/// Something with a path of its own.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub path: PathBuf,
    /// When it was written.
    pub at: SystemTime,
    pub bytes: u64,
}

/// A file that records what a node left.
#[derive(Debug, Clone)]
pub(super) struct ResultFile {
    pub item: Item,
    /// The key it is found by.
    pub key: Option<Digest>,
    /// Every digest in it but those of its key's document: blobs and the
    /// identities of environments.
    pub names: BTreeSet<Digest>,
    /// The result, if this version can read it.
    pub result: Option<StoredResult>,
}

/// A Python environment.
#[derive(Debug, Clone)]
pub(super) struct Environment {
    /// Its directory.
    pub item: Item,
    /// The digits that its identity begins with.
    pub name: String,
}

impl Store {
    /// Looks at everything in the store; blobs are not read.
    pub(super) fn inventory(&self) -> Result<Inventory, StoreError> {
        let mut weights = Weights::default();
        let mut blobs = BTreeMap::new();
        for path in files(&self.root.join("blobs"))? {
            let Some(digest) = digest_in(&path) else { continue };
            blobs.insert(digest, weights.item(path)?);
        }
        let mut results = Vec::new();
        for path in files(&self.root.join("results"))? {
            results.push(weights.item(path)?);
        }
        let results = results.into_par_iter().map(read_result).collect::<Result<_, _>>()?;
        let mut environments = Vec::new();
        for path in children(&self.root.join("envs"))?.into_iter().filter(|path| path.is_dir()) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            environments.push(Environment { item: weights.item(path)?, name });
        }
        let mut all = |part: &str| {
            let paths = children(&self.root.join(part))?;
            paths.into_iter().map(|path| weights.item(path)).collect::<Result<Vec<_>, _>>()
        };
        Ok(Inventory { results, blobs, environments, aside: all("aside")?, temporary: all("tmp")? })
    }
}

/// Whether one of these digests is the identity of an environment.
pub(super) fn names_environment(names: &BTreeSet<Digest>, environment: &str) -> bool {
    names.iter().any(|digest| digest.to_string().starts_with(environment))
}

/// Adds up what is allocated, each file once however many names it has.
#[derive(Default)]
struct Weights {
    seen: HashSet<(u64, u64)>,
}

impl Weights {
    fn item(&mut self, path: PathBuf) -> Result<Item, StoreError> {
        let found = path.symlink_metadata().map_err(io_error("look at", &path))?;
        let at = found.modified().map_err(io_error("look at", &path))?;
        let bytes = self.below(&path, &found).map_err(io_error("look at", &path))?;
        Ok(Item { path, at, bytes })
    }

    fn below(&mut self, path: &Path, found: &Metadata) -> io::Result<u64> {
        let own = if self.seen.insert((found.dev(), found.ino())) { found.blocks() * 512 } else { 0 };
        if !found.is_dir() {
            return Ok(own);
        }
        fs::read_dir(path)?.try_fold(own, |sum, entry| {
            let entry = entry?;
            Ok(sum + self.below(&entry.path(), &entry.metadata()?)?)
        })
    }
}

fn read_result(item: Item) -> Result<ResultFile, StoreError> {
    let bytes = fs::read(&item.path).map_err(io_error("read", &item.path))?;
    let mut names = BTreeSet::new();
    match serde_json::from_slice(&bytes) {
        Ok(Value::Object(mut fields)) => {
            fields.remove("key_document");
            fields.values().for_each(|value| digests(value, &mut names));
        }
        Ok(other) => digests(&other, &mut names),
        Err(_) => {}
    }
    Ok(ResultFile { key: digest_in(&item.path), names, result: serde_json::from_slice(&bytes).ok(), item })
}

/// Every digest in a document. A result of another version names what it
/// needs in its own way, and this sees it all the same.
fn digests(value: &Value, found: &mut BTreeSet<Digest>) {
    match value {
        Value::String(text) => found.extend(text.parse::<Digest>()),
        Value::Array(items) => items.iter().for_each(|item| digests(item, found)),
        Value::Object(fields) => fields.values().for_each(|item| digests(item, found)),
        _ => {}
    }
}

/// The digest that a path in a sharded directory ends with, or that the
/// directory it lies in is named by.
fn digest_in(path: &Path) -> Option<Digest> {
    let name = |path: &Path| path.file_stem()?.to_str()?.parse().ok();
    name(path).or_else(|| name(path.parent()?))
}

/// Every file below a directory, in order; none where it is missing.
fn files(dir: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let mut found = Vec::new();
    for path in children(dir)? {
        let kind = path.symlink_metadata().map_err(io_error("look at", &path))?;
        if kind.is_dir() { found.extend(files(&path)?) } else { found.push(path) }
    }
    Ok(found)
}

fn children(dir: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(io_error("read", dir)(error)),
    };
    let paths = entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>();
    let mut paths = paths.map_err(io_error("read", dir))?;
    paths.sort();
    Ok(paths)
}
