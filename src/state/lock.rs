//! One `apply` per project: an OS file lock that dies with its holder.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
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
}

impl ApplyLock {
    /// Takes the lock, or says who holds it.
    pub fn acquire(dir: &Path, holder: &Holder) -> Result<Self, StateError> {
        let path = dir.join("apply.lock");
        let io = |source| StateError::Io { path: path.clone(), source };
        std::fs::create_dir_all(dir).map_err(io)?;
        let mut file =
            OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path).map_err(io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                file.read_to_string(&mut text).map_err(io)?;
                let unknown = Holder { pid: 0, since: "an unknown time".to_owned() };
                return Err(StateError::Busy(serde_json::from_str(&text).unwrap_or(unknown)));
            }
            Err(TryLockError::Error(error)) => return Err(io(error)),
        }
        file.set_len(0).map_err(io)?;
        file.rewind().map_err(io)?;
        file.write_all(serde_json::to_string(holder)?.as_bytes()).map_err(io)?;
        Ok(Self { _file: file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_apply_learns_who_runs_since_when() {
        let dir = tempfile::tempdir().unwrap();
        let holder = Holder { pid: 42, since: "2026-11-30T10:00:00Z".to_owned() };
        let lock = ApplyLock::acquire(dir.path(), &holder).unwrap();
        let error = ApplyLock::acquire(dir.path(), &holder).unwrap_err();
        assert!(error.to_string().contains("process 42 since 2026-11-30T10:00:00Z"), "{error}");
        drop(lock);
        ApplyLock::acquire(dir.path(), &holder).unwrap();
    }
}
