//! Making the database: under another name first, so that a file named
//! `state.db` is always a whole database or a damaged one, never a young one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::{StateError, prepare};

/// Makes an empty database where there is none.
pub(super) fn ensure(path: &Path) -> Result<(), StateError> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.len() == 0 => Err(StateError::empty(path)),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => create(path),
        Err(source) => Err(StateError::Io { path: path.to_owned(), source }),
    }
}

fn create(path: &Path) -> Result<(), StateError> {
    let io = |source| StateError::Io { path: path.to_owned(), source };
    let dir = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(dir).map_err(io)?;
    let young = with_suffix(path, ".new");
    remove_database(&young).map_err(io)?;
    // A log beside a database that is gone would be read into the new one.
    remove_database(path).map_err(io)?;
    let mut connection = Connection::open(&young).map_err(|error| StateError::of(error, &young))?;
    prepare(&mut connection).map_err(|error| error.in_file(&young))?;
    connection.close().map_err(|(_, error)| StateError::of(error, &young))?;
    fs::rename(&young, path).map_err(io)?;
    fs::File::open(dir).and_then(|dir| dir.sync_all()).map_err(io)
}

/// Removes a database with its log and the log's index.
fn remove_database(path: &Path) -> io::Result<()> {
    for suffix in ["", "-wal", "-shm"] {
        match fs::remove_file(with_suffix(path, suffix)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
