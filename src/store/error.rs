//! What goes wrong in the store, and what to do about it.

use std::fmt;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::value::{Digest, Size};

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
    /// There is no space left, or the user's quota is used up.
    #[error(
        "the file system at {} is full: {} does not fit, {space}{}; make space there (`orchestrate \
         gc` removes from the store what nothing needs) or set ORCHESTRATE_STORE to a directory on another \
         file system, and run the same command again",
        space.mount.display(), path.display(),
        needed.map_or_else(String::new, |needed| format!(", {needed} needed"))
    )]
    Full {
        /// What was to be written.
        path: PathBuf,
        /// Where, and what is free there.
        space: Box<Space>,
        /// What the content takes, where that is known.
        needed: Option<Size>,
    },
    /// Something else than a file was given to be stored as one.
    #[error("{} is {what}, and the store takes files; give the file itself", path.display())]
    NotAFile {
        /// Its path.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// A directory holds something that cannot be brought back.
    #[error("{} cannot be stored: {reason}; leave it out of the directory", path.display())]
    Unstorable {
        /// Its path.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The store is to be used alone, and somebody uses it.
    #[error(
        "an apply uses the store in {}, and nothing is removed meanwhile; try again when it has ended, or wait for it with --wait",
        .0.display()
    )]
    InUse(PathBuf),
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

impl StoreError {
    /// Adds how many bytes would have been needed, where space was what lacked.
    pub(super) fn needing(self, bytes: u64) -> Self {
        match self {
            Self::Full { path, space, .. } => Self::Full { path, space, needed: Some(Size::of_bytes(bytes)) },
            other => other,
        }
    }
}

/// What is free on a file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Space {
    /// Where the file system is mounted.
    pub mount: PathBuf,
    /// Bytes that the user may still write; nothing where they are not known.
    pub free: Option<Size>,
    /// Whether it can hold no more files, however small.
    pub out_of_files: bool,
    /// Whether the user's quota is used up, whatever is free.
    pub over_quota: bool,
}

impl Space {
    fn at(path: &Path, over_quota: bool) -> Self {
        // What was to be made is perhaps not there; a directory above it is.
        let there = path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
        let found = rustix::fs::statvfs(there).ok();
        Self {
            mount: mount_of(there),
            free: found.as_ref().map(|found| Size::of_bytes(found.f_bavail.saturating_mul(found.f_frsize))),
            out_of_files: found.is_some_and(|found| found.f_files > 0 && found.f_favail == 0),
            over_quota,
        }
    }
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.free {
            _ if self.over_quota => f.write_str("your quota there is used up"),
            Some(free) if self.out_of_files => write!(f, "it can hold no more files, {free} free"),
            Some(free) => write!(f, "{free} free"),
            None => f.write_str("nothing free"),
        }
    }
}

/// The highest directory above a path that is on the same file system.
fn mount_of(path: &Path) -> PathBuf {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let device = |path: &Path| path.metadata().map(|metadata| metadata.dev()).ok();
    let own = device(&path);
    path.ancestors().take_while(|above| device(above) == own).last().unwrap_or(&path).to_owned()
}

/// Whether an error says that nothing may be written there.
pub(super) fn is_refused(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied)
}

/// An error of the file system as one of the store.
pub(super) fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    move |source| {
        full(&source, path, path).unwrap_or(StoreError::Io { action, path: path.to_owned(), source })
    }
}

/// An error of copying a file to a place in a directory.
pub(super) fn copy_error(from: &Path, to: &Path) -> impl FnOnce(io::Error) -> StoreError {
    move |source| {
        let (action, path) = ("copy", from.to_owned());
        full(&source, from, to).unwrap_or(StoreError::Io { action, path, source })
    }
}

/// The error for a lack of space, if it is one; `at` is on the file system
/// that `what` does not fit on.
fn full(error: &io::Error, what: &Path, at: &Path) -> Option<StoreError> {
    let over_quota = match error.kind() {
        ErrorKind::StorageFull => false,
        ErrorKind::QuotaExceeded => true,
        _ => return None,
    };
    let space = Box::new(Space::at(at, over_quota));
    Some(StoreError::Full { path: what.to_owned(), space, needed: None })
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn a_used_up_quota_and_a_lack_of_files_are_told_from_a_lack_of_space() {
        let path = Path::new("/proc/nowhere/a");
        let text = |error: Errno| io_error("write", path)(error.into()).to_string();
        let quota = text(Errno::DQUOT);
        assert!(quota.contains("at /proc is full") && quota.contains("quota there is used up"), "{quota}");
        assert!(text(Errno::NOSPC).contains("0B free"), "{}", text(Errno::NOSPC));
        let space = Space {
            mount: PathBuf::from("/m"),
            free: Some(Size::of_bytes(1 << 20)),
            out_of_files: true,
            over_quota: false,
        };
        assert_eq!(space.to_string(), "it can hold no more files, 1MiB free");
        let denied = text(Errno::ACCESS);
        assert!(denied.contains("check space and permissions"), "{denied}");
    }
}
