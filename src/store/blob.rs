//! Files by the digest of their content.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::SystemTime;

use super::error::is_refused;
use super::{Store, StoreError, io_error};
use crate::value::Digest;

impl Store {
    /// Whether something is stored under this name; its content is not read.
    #[must_use]
    pub fn has(&self, digest: Digest) -> bool {
        self.blob_path(digest).is_file()
    }

    /// The bytes of a small file, verified.
    pub fn get_bytes(&self, digest: Digest) -> Result<Vec<u8>, StoreError> {
        let path = self.blob_path(digest);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(StoreError::Missing(digest));
            }
            Err(error) => return Err(io_error("read", &path)(error)),
        };
        if Digest::of(&bytes) == digest { Ok(bytes) } else { Err(self.set_aside(digest)?) }
    }

    /// Reads back a stored JSON document, verified.
    pub fn get_json<T: serde::de::DeserializeOwned>(&self, digest: Digest) -> Result<T, StoreError> {
        let bytes = self.get_bytes(digest)?;
        serde_json::from_slice(&bytes).map_err(|error| StoreError::Unreadable {
            path: self.blob_path(digest),
            reason: error.to_string(),
        })
    }

    /// The read-only path of a stored file, verified before it is returned.
    pub fn verified_path(&self, digest: Digest) -> Result<PathBuf, StoreError> {
        let path = self.blob_path(digest);
        if !path.is_file() {
            return Err(StoreError::Missing(digest));
        }
        let found = Digest::of_file(&path).map_err(io_error("read", &path))?;
        if found == digest { Ok(path) } else { Err(self.set_aside(digest)?) }
    }

    pub(super) fn blob_path(&self, digest: Digest) -> PathBuf {
        self.sharded("blobs", &digest.to_string())
    }

    /// Moves content that is not what its name says out of the way, and says
    /// so. Another may have done it already.
    pub(super) fn set_aside(&self, digest: Digest) -> Result<StoreError, StoreError> {
        if self.read_only {
            return Ok(StoreError::DamagedInPlace(digest));
        }
        let path = self.blob_path(digest);
        let aside = self.root.join("aside").join(digest.to_string());
        match fs::rename(&path, &aside) {
            Err(error) if is_refused(&error) => return Ok(StoreError::DamagedInPlace(digest)),
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(io_error("set aside", &path)(error));
            }
            _ => {}
        }
        // `gc` counts from when it was set aside; where this fails, from when
        // it was made.
        let _ = File::open(&aside).and_then(|file| file.set_modified(SystemTime::now()));
        Ok(StoreError::Damaged { digest, aside })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn store() -> (tempfile::TempDir, Store) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        (dir, store)
    }

    #[test]
    fn what_is_stored_comes_back_and_cannot_be_written() {
        let (dir, store) = store();
        let digest = store.put_bytes(b"hello").unwrap();
        assert_eq!(store.get_bytes(digest).unwrap(), b"hello");
        let mode = fs::metadata(store.blob_path(digest)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o444);
        let to = dir.path().join("out/hello.txt");
        store.materialise(digest, &to).unwrap();
        assert_eq!(fs::read(to).unwrap(), b"hello");
    }

    #[test]
    fn a_store_that_is_only_read_leaves_everything_where_it_is() {
        let (dir, store) = store();
        let reader = Store::read_only(dir.path());
        let digest = store.put_bytes(b"truth").unwrap();
        assert_eq!(reader.get_bytes(digest).unwrap(), b"truth");
        let path = store.blob_path(digest);
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        fs::write(&path, b"lie").unwrap();
        for error in [reader.get_bytes(digest).unwrap_err(), reader.verified_path(digest).unwrap_err()] {
            assert!(matches!(error, StoreError::DamagedInPlace(_)), "{error}");
        }
        assert!(path.is_file());
        assert!(matches!(reader.put_bytes(b"new").unwrap_err(), StoreError::ReadOnly(_)));
        assert!(matches!(reader.environment_slot(digest).unwrap_err(), StoreError::ReadOnly(_)));
        let nowhere = Store::read_only(&dir.path().join("nowhere"));
        assert!(matches!(nowhere.get_bytes(digest).unwrap_err(), StoreError::Missing(_)));
        assert!(!nowhere.root().exists());
    }

    #[test]
    fn a_damaged_file_is_set_aside_and_then_missing() {
        let (_dir, store) = store();
        let digest = store.put_bytes(b"truth").unwrap();
        let path = store.blob_path(digest);
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        fs::write(&path, b"lie").unwrap();
        let error = store.verified_path(digest).unwrap_err();
        assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
        let error = store.get_bytes(digest).unwrap_err();
        assert!(matches!(error, StoreError::Missing(_)), "{error}");
    }
}
