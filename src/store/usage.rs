//! Who uses the store: an OS file lock, shared by those that write and taken
//! alone by what removes. It dies with its holder.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::path::Path;

use super::error::is_refused;
use super::{Store, StoreError, io_error};

/// The store is in use: nothing is removed from it until this is dropped.
#[derive(Debug)]
pub struct StoreUse {
    /// Absent where the store is on a file system that nobody can write.
    _lock: Option<File>,
}

/// Nobody else uses the store until this is dropped.
#[derive(Debug)]
pub struct SoleUse {
    _lock: File,
}

impl Store {
    /// Keeps what removes away. Everything that writes into the store holds
    /// this from before its first write until its results are recorded.
    ///
    /// Whoever finds the store unused removes first what killed runs left in
    /// `tmp`. This waits while a `gc` removes, so async code calls it from a
    /// thread that may block.
    pub fn hold(&self) -> Result<StoreUse, StoreError> {
        let path = self.root.join("in-use.lock");
        let Some(lock) = open_lock(&path).map_err(io_error("open", &path))? else {
            return Ok(StoreUse { _lock: None });
        };
        if lock.try_lock().is_ok() {
            self.remove_leftovers()?;
            lock.unlock().map_err(io_error("unlock", &path))?;
        }
        lock.lock_shared().map_err(io_error("lock", &path))?;
        Ok(StoreUse { _lock: Some(lock) })
    }

    /// Has the store alone, once nobody uses it: at once or not at all, unless
    /// `wait` says to wait for it.
    pub fn hold_alone(&self, wait: bool) -> Result<SoleUse, StoreError> {
        self.must_be_writable()?;
        let path = self.root.join("in-use.lock");
        let lock = writable_lock(&path).map_err(io_error("open", &path))?;
        if wait {
            lock.lock().map_err(io_error("lock", &path))?;
        } else {
            lock.try_lock().map_err(|error| match error {
                TryLockError::WouldBlock => StoreError::InUse(self.root.clone()),
                TryLockError::Error(error) => io_error("lock", &path)(error),
            })?;
        }
        Ok(SoleUse { _lock: lock })
    }

    /// Removes what is under temporary names. Whoever calls this has the
    /// store alone. What cannot be removed does no harm where it is.
    fn remove_leftovers(&self) -> Result<(), StoreError> {
        let dir = self.root.join("tmp");
        for entry in fs::read_dir(&dir).map_err(io_error("read", &dir))?.flatten() {
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let _ = if is_dir { fs::remove_dir_all(entry.path()) } else { fs::remove_file(entry.path()) };
        }
        Ok(())
    }
}

fn writable_lock(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path)
}

/// The lock's file; nothing where it is missing and cannot be made, because
/// then nothing can be removed either.
fn open_lock(path: &Path) -> io::Result<Option<File>> {
    match writable_lock(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if is_refused(&error) => match File::open(path) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_alone_with_a_store_that_somebody_uses() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let (one, two) = (store.hold().unwrap(), store.hold().unwrap());
        drop(one);
        let error = store.hold_alone(false).unwrap_err();
        assert!(matches!(error, StoreError::InUse(_)), "{error}");
        drop(two);
        store.hold_alone(false).unwrap();
    }

    #[test]
    fn what_a_killed_run_left_half_written_is_gone_when_the_next_begins_and_no_sooner() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let half = dir.path().join("tmp/half");
        let first = store.hold().unwrap();
        fs::write(&half, "hal").unwrap();
        let second = store.hold().unwrap();
        assert!(half.exists(), "it may be of the first, which is still there");
        drop((first, second));
        let _third = store.hold().unwrap();
        assert!(!half.exists());
    }
}
