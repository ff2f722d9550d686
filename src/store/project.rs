//! The projects that used the store, so that nothing they need is removed.

use std::ffi::OsString;
use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::error::is_refused;
use super::{Store, StoreError, io_error};
use crate::value::Digest;

/// A project that used the store.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Project {
    /// Its state directory.
    pub state_dir: PathBuf,
    /// Whether the directory still exists.
    pub exists: bool,
}

impl Store {
    /// Remembers a project by its state directory, which must exist; its path
    /// is written once. A store that cannot be written remembers nobody, and
    /// nothing can be removed from it either.
    pub fn remember_project(&self, state_dir: &Path) -> Result<(), StoreError> {
        let state_dir = state_dir.canonicalize().map_err(io_error("find", state_dir))?;
        let bytes = state_dir.as_os_str().as_bytes();
        let path = self.root.join("projects").join(Digest::of(bytes).to_string());
        if fs::read(&path).is_ok_and(|known| known == bytes) {
            return Ok(());
        }
        let mut file = match self.temporary_file() {
            Ok(file) => file,
            Err(StoreError::Io { source, .. }) if is_refused(&source) => return Ok(()),
            Err(error) => return Err(error),
        };
        file.write_all(bytes).map_err(io_error("write", &path))?;
        Self::persist(file, &path)
    }

    /// Every project that used the store, by path.
    pub fn projects(&self) -> Result<Vec<Project>, StoreError> {
        let dir = self.root.join("projects");
        let entries = match fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(io_error("read", &dir)(error)),
        };
        let mut projects = Vec::new();
        for entry in entries {
            let path = entry.map_err(io_error("read", &dir))?.path();
            let state_dir: PathBuf =
                OsString::from_vec(fs::read(&path).map_err(io_error("read", &path))?).into();
            let exists = state_dir.try_exists().map_err(io_error("look at", &state_dir))?;
            projects.push(Project { state_dir, exists });
        }
        projects.sort();
        Ok(projects)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_remembered_once_and_marked_when_it_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("store")).unwrap();
        let odd = dir.path().join(OsString::from_vec(b"a \xff\n".to_vec()));
        fs::create_dir(&odd).unwrap();
        store.remember_project(&odd).unwrap();
        store.remember_project(&odd.join("../").join(odd.file_name().unwrap())).unwrap();
        let known = odd.canonicalize().unwrap();
        assert_eq!(store.projects().unwrap(), [Project { state_dir: known.clone(), exists: true }]);
        fs::remove_dir(&odd).unwrap();
        assert_eq!(store.projects().unwrap(), [Project { state_dir: known, exists: false }]);
    }
}
