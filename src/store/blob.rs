//! Files by the digest of their content.

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::{Store, StoreError, io_error};
use crate::value::Digest;

impl Store {
    /// Stores bytes and returns their name.
    pub fn put_bytes(&self, bytes: &[u8]) -> Result<Digest, StoreError> {
        let digest = Digest::of(bytes);
        if !self.is_intact(digest) {
            let mut file = self.temporary_file()?;
            file.write_all(bytes).map_err(io_error("write", file.path()))?;
            self.keep(file, digest)?;
        }
        Ok(digest)
    }

    /// Stores a copy of a file and returns its name. The copy is what is
    /// digested, so a file that changes meanwhile cannot get a wrong name.
    pub fn put_file(&self, path: &Path) -> Result<Digest, StoreError> {
        let mut source = File::open(path).map_err(io_error("read", path))?;
        let mut file = self.temporary_file()?;
        std::io::copy(&mut source, &mut file).map_err(io_error("copy", path))?;
        let digest = Digest::of_file(file.path()).map_err(io_error("read", file.path()))?;
        if !self.is_intact(digest) {
            self.keep(file, digest)?;
        }
        Ok(digest)
    }

    /// Stores a document as pretty JSON and returns the name of the text.
    pub fn put_json<T: serde::Serialize>(&self, value: &T) -> Result<Digest, StoreError> {
        let mut text = serde_json::to_vec_pretty(value)
            .map_err(|error| StoreError::Unreadable { path: self.root.clone(), reason: error.to_string() })?;
        text.push(b'\n');
        self.put_bytes(&text)
    }

    /// Whether something is stored under this name; its content is not read.
    #[must_use]
    pub fn has(&self, digest: Digest) -> bool {
        self.blob_path(digest).is_file()
    }

    /// Whether what is stored under this name is what it should be.
    fn is_intact(&self, digest: Digest) -> bool {
        Digest::of_file(&self.blob_path(digest)).is_ok_and(|found| found == digest)
    }

    /// The bytes of a small file, verified.
    pub fn get_bytes(&self, digest: Digest) -> Result<Vec<u8>, StoreError> {
        let path = self.blob_path(digest);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
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

    /// Makes a stored file appear at a path, as a link where the file system
    /// can and as a copy otherwise. Verified first; read-only.
    pub fn materialise(&self, digest: Digest, to: &Path) -> Result<(), StoreError> {
        let from = self.verified_path(digest)?;
        if let Some(parent) = to.parent() {
            Self::create_dir(parent)?;
        }
        if fs::hard_link(&from, to).is_err() {
            fs::copy(&from, to).map_err(io_error("copy to", to))?;
        }
        Ok(())
    }

    pub(super) fn blob_path(&self, digest: Digest) -> PathBuf {
        self.sharded("blobs", &digest.to_string())
    }

    fn keep(&self, file: tempfile::NamedTempFile, digest: Digest) -> Result<(), StoreError> {
        let path = self.blob_path(digest);
        file.as_file()
            .set_permissions(Permissions::from_mode(0o444))
            .map_err(io_error("protect", file.path()))?;
        Self::persist(file, &path)
    }

    fn set_aside(&self, digest: Digest) -> Result<StoreError, StoreError> {
        if self.read_only {
            return Ok(StoreError::DamagedInPlace(digest));
        }
        let path = self.blob_path(digest);
        let aside = self.root.join("aside").join(digest.to_string());
        fs::rename(&path, &aside).map_err(io_error("set aside", &path))?;
        Ok(StoreError::Damaged { digest, aside })
    }
}

#[cfg(test)]
mod tests {
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
    fn a_file_and_its_bytes_have_one_name() {
        let (dir, store) = store();
        let path = dir.path().join("x");
        fs::write(&path, b"same").unwrap();
        assert_eq!(store.put_file(&path).unwrap(), store.put_bytes(b"same").unwrap());
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
    fn what_is_stored_again_takes_the_place_of_what_was_damaged() {
        let (dir, store) = store();
        let digest = store.put_bytes(b"truth").unwrap();
        let source = dir.path().join("source");
        fs::write(&source, b"truth").unwrap();
        let again: [&dyn Fn() -> Digest; 2] =
            [&|| store.put_bytes(b"truth").unwrap(), &|| store.put_file(&source).unwrap()];
        for put in again {
            fs::remove_file(store.blob_path(digest)).unwrap();
            fs::write(store.blob_path(digest), b"a lie").unwrap();
            assert_eq!(put(), digest);
            assert_eq!(store.get_bytes(digest).unwrap(), b"truth");
        }
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
