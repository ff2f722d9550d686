//! Puts the rendered reports where people look for them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{NodeResult, RunError};
use crate::node::{Artifact, World};
use crate::plan::Plan;
use crate::store::{Store, TreeContent};
use crate::value::Digest;

/// Holds the digest of the report that lies beside it.
const MARK: &str = ".report";

/// Copies every report of the run to `reports/PLAN` and returns the paths a
/// person opens. A report that is already there is left alone.
pub(super) fn reports(
    plan: &Plan,
    nodes: &[NodeResult],
    state_dir: &Path,
    world: &World,
) -> Result<Vec<String>, RunError> {
    let mut paths = Vec::new();
    for node in nodes.iter().filter(|node| node.record.outcome.passed()) {
        let Some(Artifact::Tree(tree)) = node.record.outputs.get("report") else { continue };
        let place = state_dir.join("reports").join(&plan.name);
        publish(&world.store, *tree, &place)
            .map_err(|source| RunError::Directory { path: place.clone(), source })?;
        let files = ["coverage.md", "coverage.html", "coverage.csv", "coverage.json"];
        paths.extend(files.map(|file| place.join(file).display().to_string()));
    }
    Ok(paths)
}

fn publish(store: &Store, tree: Digest, place: &Path) -> io::Result<()> {
    let mark = place.join(MARK);
    let entries = store.tree(tree).map_err(io::Error::other)?;
    let whole = || entries.iter().all(|entry| place.join(&entry.path).symlink_metadata().is_ok());
    if fs::read_to_string(&mark).is_ok_and(|text| text == tree.to_string()) && whole() {
        return Ok(());
    }
    let fresh = beside(place, "new");
    if fresh.exists() {
        fs::remove_dir_all(&fresh)?;
    }
    fs::create_dir_all(&fresh)?;
    for entry in &entries {
        let path = fresh.join(&entry.path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        match &entry.content {
            TreeContent::File { digest, .. } => {
                fs::write(&path, store.get_bytes(*digest).map_err(io::Error::other)?)?;
            }
            TreeContent::Link(target) => std::os::unix::fs::symlink(target, &path)?,
            TreeContent::EmptyDirectory => fs::create_dir_all(&path)?,
        }
    }
    fs::write(fresh.join(MARK), tree.to_string())?;
    let old = beside(place, "old");
    if place.exists() {
        if old.exists() {
            fs::remove_dir_all(&old)?;
        }
        fs::rename(place, &old)?;
    }
    fs::rename(&fresh, place)?;
    if old.exists() {
        fs::remove_dir_all(&old)?;
    }
    Ok(())
}

fn beside(place: &Path, what: &str) -> PathBuf {
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    place.with_file_name(format!(".{name}.{what}"))
}
