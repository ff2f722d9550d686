//! One `apply` per project: an OS file lock that dies with its holder.

use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::StateError;

/// The right to change this project's state.
#[derive(Debug)]
pub struct ApplyLock {
    _file: File,
}

/// Who holds the lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Its process.
    pub pid: u32,
    /// Since when (RFC 3339).
    pub since: String,
    /// The plan that it runs.
    pub plan: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} since {}, plan {}", self.pid, self.since, self.plan)
    }
}

impl ApplyLock {
    /// Takes the lock, or says who holds it. What an earlier holder left in
    /// the file means nothing.
    pub fn acquire(dir: &Path, holder: &Holder) -> Result<Self, StateError> {
        let path = dir.join("apply.lock");
        let io = |source| StateError::Io { path: path.clone(), source };
        std::fs::create_dir_all(dir).map_err(io)?;
        // Children do not inherit it: files are opened to be closed on exec.
        let mut file =
            OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path).map_err(io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(StateError::Busy(named_in(&file))),
            Err(TryLockError::Error(error)) => return Err(io(error)),
        }
        file.set_len(0).map_err(io)?;
        file.write_all(serde_json::to_string(holder)?.as_bytes()).map_err(io)?;
        Ok(Self { _file: file })
    }
}

/// The holder that the file names; none before it has written its name.
fn named_in(mut file: &File) -> Option<Holder> {
    let mut text = Vec::new();
    file.read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder() -> Holder {
        Holder { pid: 42, since: "2026-11-30T10:00:00Z".to_owned(), plan: "stage-f".to_owned() }
    }

    #[test]
    fn the_second_apply_learns_who_runs_what_since_when() {
        let dir = tempfile::tempdir().unwrap();
        let lock = ApplyLock::acquire(dir.path(), &holder()).unwrap();
        let error = ApplyLock::acquire(dir.path(), &holder()).unwrap_err();
        let who = "process 42 since 2026-11-30T10:00:00Z, plan stage-f;";
        assert!(error.to_string().contains(who), "{error}");
        drop(lock);
        ApplyLock::acquire(dir.path(), &holder()).unwrap();
    }

    #[test]
    fn garbage_in_the_lock_file_is_harmless() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("apply.lock");
        for garbage in [&b""[..], b"{\"pid\": 1", b"\xff\xfe\0", &b"x".repeat(100_000)] {
            std::fs::write(&path, garbage).unwrap();
            let _lock = ApplyLock::acquire(dir.path(), &holder()).unwrap();
            assert_eq!(named_in(&File::open(&path).unwrap()), Some(holder()));
            std::fs::write(&path, garbage).unwrap();
            let error = ApplyLock::acquire(dir.path(), &holder()).unwrap_err();
            assert!(matches!(error, StateError::Busy(None)), "{error}");
        }
    }
}
