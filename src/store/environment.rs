//! Python environments, which are used where they were made: they hold
//! absolute paths and cannot be moved.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use super::put::{sync, sync_all};
use super::{Store, StoreError, io_error};
use crate::value::Digest;

/// The place of one environment, held by a lock while it is being made.
#[derive(Debug)]
pub struct EnvironmentSlot {
    path: PathBuf,
    _lock: File,
}

const MARK: &str = ".complete";

impl Store {
    /// Takes the place that belongs to `identity` for exclusive use, or nothing
    /// while another has it. What an interrupted attempt left there is removed.
    pub fn environment_slot(&self, identity: Digest) -> Result<Option<EnvironmentSlot>, StoreError> {
        self.must_be_writable()?;
        let path = self.environment_path(identity);
        let lock_path = path.with_extension("lock");
        let lock = File::create(&lock_path).map_err(io_error("create", &lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(io_error("lock", &lock_path)(error)),
        }
        let slot = EnvironmentSlot { path, _lock: lock };
        if slot.path.exists() && self.environment(identity).is_none() {
            fs::remove_dir_all(&slot.path).map_err(io_error("remove", &slot.path))?;
        }
        Ok(Some(slot))
    }

    /// A finished environment, if it is still there.
    #[must_use]
    pub fn environment(&self, identity: Digest) -> Option<PathBuf> {
        let path = self.environment_path(identity);
        // The link to the interpreter dangles when Python was removed.
        (path.join(MARK).is_file() && path.join("bin/python").exists()).then_some(path)
    }

    fn environment_path(&self, identity: Digest) -> PathBuf {
        self.root.join("envs").join(&identity.to_string()[..32])
    }
}

impl EnvironmentSlot {
    /// Where the environment is, or is to be made.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the environment was finished earlier.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.path.join(MARK).is_file()
    }

    /// Marks the environment as finished. Everything in it is on the disk
    /// before the mark is: after a power cut no mark stands for files that
    /// were lost.
    pub fn complete(&self) -> Result<(), StoreError> {
        sync_all(&self.path)?;
        let mark = self.path.join(MARK);
        File::create(&mark).map_err(io_error("write", &mark))?;
        sync(&mark)?;
        sync(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_half_made_environment_is_removed_and_a_finished_one_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let identity = Digest::of("aiperf==0.13.0");
        let take = || store.environment_slot(identity).unwrap();
        let slot = take().unwrap();
        assert!(take().is_none(), "two have one place");
        fs::create_dir_all(slot.path().join("bin")).unwrap();
        assert!(store.environment(identity).is_none());
        drop(slot);
        let slot = take().unwrap();
        assert!(!slot.path().exists());
        fs::create_dir_all(slot.path().join("bin")).unwrap();
        fs::write(slot.path().join("bin/python"), "").unwrap();
        slot.complete().unwrap();
        drop(slot);
        assert!(take().unwrap().is_complete());
        assert!(store.environment(identity).is_some());
    }

    #[test]
    fn an_environment_whose_interpreter_is_gone_is_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let identity = Digest::of("aiperf==0.13.0");
        let slot = store.environment_slot(identity).unwrap().unwrap();
        fs::create_dir_all(slot.path().join("bin")).unwrap();
        std::os::unix::fs::symlink("/nowhere/python3", slot.path().join("bin/python")).unwrap();
        slot.complete().unwrap();
        drop(slot);
        assert!(store.environment(identity).is_none());
        assert!(!store.environment_slot(identity).unwrap().unwrap().is_complete());
    }
}
