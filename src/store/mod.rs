//! The user's content-addressed store: blobs, trees, results, environments.
//!
//! It belongs to the user and is shared by all projects of a machine. It
//! knows digests and bytes, and nothing of plans or nodes. What is in it is
//! written to a temporary name, synced, and renamed, so that a name always
//! stands for complete content.

mod blob;
mod environment;
mod result;
mod tree;

use std::io;
use std::path::{Path, PathBuf};

pub use environment::EnvironmentSlot;
pub use result::{KeyDocument, Recorded, StoredResult};
pub use tree::TreeEntry;

use crate::value::Digest;

/// A store in one directory.
#[derive(Debug, Clone)]
pub struct Store {
    root: PathBuf,
    /// Whether nothing in it may change.
    read_only: bool,
}

/// What went wrong in the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file system refused.
    #[error("the store could not {action} {}: {source}; check space and permissions there", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The content was never stored, or was collected.
    #[error("{0} is not in the store; run `orchestrate apply` to make it again")]
    Missing(Digest),
    /// The content does not match its digest; it was set aside.
    #[error("{digest} is in the store but damaged; it was moved to {} and will be made again", aside.display())]
    Damaged {
        /// What it should have been.
        digest: Digest,
        /// Where the damaged file is now.
        aside: PathBuf,
    },
    /// The content does not match its digest; it was left where it is.
    #[error("{0} is in the store but damaged; the next `orchestrate apply` that reads it sets it aside")]
    DamagedInPlace(Digest),
    /// The store was opened to be read, and something was to be written.
    #[error("the store in {} was opened for reading only; this is a mistake of this program, please report it", .0.display())]
    ReadOnly(PathBuf),
    /// A document in the store is not what this version writes.
    #[error("{} is not a document this version can read: {reason}; remove it and run again", path.display())]
    Unreadable {
        /// The document.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

impl Store {
    /// Opens the store, making its directories if they are not there.
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        let store = Self { root: root.to_owned(), read_only: false };
        for part in ["blobs", "results", "envs", "aside", "tmp"] {
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
    /// system as what it will be renamed to.
    pub fn temporary_file(&self) -> Result<tempfile::NamedTempFile, StoreError> {
        self.must_be_writable()?;
        let dir = self.root.join("tmp");
        tempfile::NamedTempFile::new_in(&dir).map_err(io_error("write in", &dir))
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

    /// Syncs a temporary file and gives it its final name.
    fn persist(file: tempfile::NamedTempFile, path: &Path) -> Result<(), StoreError> {
        if let Some(parent) = path.parent() {
            Self::create_dir(parent)?;
        }
        file.as_file().sync_all().map_err(io_error("sync", path))?;
        file.persist(path).map_err(|error| io_error("write", path)(error.error))?;
        Ok(())
    }
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    move |source| StoreError::Io { action, path: path.to_owned(), source }
}
