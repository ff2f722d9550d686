//! How a database is read without a trace beside it.

use std::fmt::Write;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::SystemTime;

use rusqlite::{Connection, OpenFlags};
use rustix::process::{Flock, FlockType, fcntl_getlk};
use tempfile::TempDir;

use super::create::with_suffix;
use super::{FILE, StateError};

/// The byte of the log's index on which every process that uses the log has a
/// lock (`UNIX_SHM_DMS` in SQLite's `os_unix.c`).
const IN_USE: u64 = 128;

/// What there is of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// The file is all there is.
    Quiet,
    /// A process writes: its log is read through the index that it keeps.
    Live,
    /// Whoever wrote the log was killed. Only a writer may bring it into the
    /// file, so it is read from a copy.
    Left,
}

impl Access {
    pub(super) fn of(path: &Path) -> Self {
        match (has_log(path), is_in_use(path)) {
            (false, _) => Self::Quiet,
            (true, true) => Self::Live,
            (true, false) => Self::Left,
        }
    }
}

/// Whether a log lies beside a database.
pub(super) fn has_log(path: &Path) -> bool {
    fs::metadata(with_suffix(path, "-wal")).is_ok_and(|log| log.len() > 0)
}

/// Whether another process uses the log of a database.
fn is_in_use(path: &Path) -> bool {
    let Ok(index) = File::open(with_suffix(path, "-shm")) else { return false };
    // Asked for and not taken: every other lock is in the way of one for writing.
    let lock = Flock { start: IN_USE, length: 1, ..Flock::from(FlockType::WriteLock) };
    fcntl_getlk(&index, &lock).is_ok_and(|holder| holder.is_some())
}

/// A database opened for reading, and the copy that it is in, if there is one.
pub(super) fn open(path: &Path) -> Result<(Connection, Option<TempDir>), StateError> {
    let io = |source| StateError::Io { path: path.to_owned(), source };
    let absolute = std::path::absolute(path).map_err(io)?;
    let parameters = match Access::of(&absolute) {
        Access::Quiet => "?immutable=1",
        Access::Live => "?mode=ro&readonly_shm=1",
        Access::Left => {
            let copy = copied(&absolute).map_err(io)?;
            let connection = Connection::open(copy.path().join(FILE))?;
            return Ok((connection, Some(copy)));
        }
    };
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Ok((Connection::open_with_flags(uri(&absolute) + parameters, flags)?, None))
}

/// A copy of a database and its log in a directory of its own.
fn copied(path: &Path) -> io::Result<TempDir> {
    let copy = tempfile::tempdir()?;
    for suffix in ["", "-wal"] {
        fs::copy(with_suffix(path, suffix), with_suffix(&copy.path().join(FILE), suffix))?;
    }
    Ok(copy)
}

/// A path as SQLite's URIs have it (<https://sqlite.org/uri.html>).
fn uri(path: &Path) -> String {
    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/.-_".contains(byte) {
            uri.push(char::from(*byte));
        } else {
            // Writing into a string does not fail.
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri
}

/// What tells that a database was changed, or how it has to be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    modified: Option<SystemTime>,
    size: u64,
    file: u64,
    /// How it is read.
    pub access: Access,
}

impl Stamp {
    pub(super) fn of(path: &Path) -> Self {
        let metadata = fs::metadata(path).ok();
        Self {
            modified: metadata.as_ref().and_then(|metadata| metadata.modified().ok()),
            size: metadata.as_ref().map_or(0, fs::Metadata::len),
            file: metadata.as_ref().map_or(0, MetadataExt::ino),
            access: Access::of(path),
        }
    }
}
