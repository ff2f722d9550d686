//! Directories as a manifest of stored files.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Store, StoreError, io_error};
use crate::value::Digest;

/// One file of a stored directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeEntry {
    /// Path below the directory, with `/` between its parts.
    pub path: String,
    /// The file's content.
    pub digest: Digest,
    /// Whether its owner may execute it.
    pub executable: bool,
}

impl Store {
    /// Stores every file below a directory; the name covers paths, contents
    /// and the executable bit, and no times.
    pub fn put_tree(&self, dir: &Path) -> Result<Digest, StoreError> {
        let mut files = Vec::new();
        list_files(dir, &mut files)?;
        files.sort();
        let entries =
            files.iter().map(|path| self.put_entry(dir, path)).collect::<Result<Vec<_>, StoreError>>()?;
        self.put_json(&entries)
    }

    /// The files of a stored directory, in the order of their paths.
    pub fn tree(&self, digest: Digest) -> Result<Vec<TreeEntry>, StoreError> {
        self.get_json(digest)
    }

    /// Makes a stored directory appear at a path.
    pub fn materialise_tree(&self, digest: Digest, to: &Path) -> Result<(), StoreError> {
        Self::create_dir(to)?;
        for entry in self.tree(digest)? {
            self.materialise(entry.digest, &to.join(&entry.path))?;
        }
        Ok(())
    }

    fn put_entry(&self, dir: &Path, path: &Path) -> Result<TreeEntry, StoreError> {
        let relative = path.strip_prefix(dir).unwrap_or(path);
        let mode = fs::metadata(path).map_err(io_error("read", path))?.permissions().mode();
        Ok(TreeEntry {
            path: relative.to_string_lossy().into_owned(),
            digest: self.put_file(path)?,
            executable: mode & 0o100 != 0,
        })
    }
}

fn list_files(dir: &Path, files: &mut Vec<PathBuf>) -> Result<(), StoreError> {
    for entry in fs::read_dir(dir).map_err(io_error("read", dir))? {
        let entry = entry.map_err(io_error("read", dir))?;
        let kind = entry.file_type().map_err(io_error("read", &entry.path()))?;
        if kind.is_dir() {
            list_files(&entry.path(), files)?;
        } else if kind.is_file() {
            files.push(entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_comes_back_file_by_file() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("store")).unwrap();
        let source = dir.path().join("source");
        fs::create_dir_all(source.join("deep/er")).unwrap();
        fs::write(source.join("a"), "1").unwrap();
        fs::write(source.join("deep/er/b"), "2").unwrap();
        let digest = store.put_tree(&source).unwrap();
        assert_eq!(store.put_tree(&source).unwrap(), digest);
        let copy = dir.path().join("copy");
        store.materialise_tree(digest, &copy).unwrap();
        assert_eq!(fs::read_to_string(copy.join("deep/er/b")).unwrap(), "2");
        fs::write(source.join("a"), "3").unwrap();
        assert_ne!(store.put_tree(&source).unwrap(), digest);
    }
}
