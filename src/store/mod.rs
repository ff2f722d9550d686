//! The user's content-addressed store: blobs, trees, results, environments.
//!
//! It belongs to the user and is shared by all projects of a machine. It
//! knows digests and bytes, and nothing of plans or nodes. What is in it is
//! written to a temporary name, synced, and renamed, so that a name always
//! stands for complete content.
//!
//! Who writes holds it in use ([`Store::hold`]); who removes has it alone
//! ([`Store::hold_alone`]).

mod audit;
mod blob;
mod collect;
mod environment;
mod error;
mod inventory;
mod place;
mod project;
mod put;
mod result;
mod tree;
mod usage;

use std::path::{Path, PathBuf};

pub use audit::{Audit, Lost, Part, Stats};
pub use collect::{Collected, Collection, Freed, Limits, Needed};
pub use environment::EnvironmentSlot;
pub use error::{Space, StoreError};
pub use project::Project;
pub use result::{KeyDocument, Recorded, StoredResult};
pub use tree::{TreeContent, TreeEntry, is_inside};
pub use usage::{SoleUse, StoreUse};

use error::io_error;

/// A store in one directory.
#[derive(Debug, Clone)]
pub struct Store {
    root: PathBuf,
    /// Whether nothing in it may change.
    read_only: bool,
}

impl Store {
    /// Opens the store, making its directories if they are not there.
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        let store = Self { root: root.to_owned(), read_only: false };
        for part in ["blobs", "results", "envs", "aside", "tmp", "projects"] {
            Self::create_dir(&root.join(part))?;
        }
        Ok(store)
    }

    /// The store as it is, or as an empty one where there is none. Nothing is
    /// ever made, moved or removed through it.
    #[must_use]
    pub fn read_only(root: &Path) -> Self {
        Self { root: root.to_owned(), read_only: true }
    }

    /// The store's directory.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A new file in the store's own temporary directory, on the same file
    /// system as what it will be renamed to. It is gone when it is dropped.
    pub fn temporary_file(&self) -> Result<tempfile::NamedTempFile, StoreError> {
        self.must_be_writable()?;
        let dir = self.root.join("tmp");
        // Its errors name the file, which means nothing to anybody.
        let file = tempfile::NamedTempFile::new_in(&dir).map_err(|error| error.kind().into());
        file.map_err(io_error("write in", &dir))
    }

    fn must_be_writable(&self) -> Result<(), StoreError> {
        if self.read_only { Err(StoreError::ReadOnly(self.root.clone())) } else { Ok(()) }
    }

    fn create_dir(path: &Path) -> Result<(), StoreError> {
        std::fs::create_dir_all(path).map_err(io_error("create", path))
    }

    /// `DIR/ab/abcdef…`: no directory grows too large.
    fn sharded(&self, part: &str, name: &str) -> PathBuf {
        self.root.join(part).join(&name[..2]).join(name)
    }

    /// Syncs a temporary file and gives it its final name, which survives a
    /// power cut from then on.
    fn persist(file: tempfile::NamedTempFile, path: &Path) -> Result<(), StoreError> {
        file.as_file().sync_all().map_err(io_error("sync", path))?;
        let dirs = put::make_parent(path)?;
        file.persist(path).map_err(|error| io_error("write", path)(error.error))?;
        dirs.iter().try_for_each(|dir| put::sync(dir))
    }
}
