//! What can go wrong with the state, and what to do then.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

use super::Holder;

/// What went wrong with the state.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The file system refused.
    #[error("the state in {} cannot be used: {source}; check space and permissions there", path.display())]
    Io {
        /// On which path.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The database refused.
    #[error("the state database could not be used: {0}")]
    Database(rusqlite::Error),
    /// The file does not hold what was written into it, or is no database.
    #[error(
        "the state database {path} is damaged: {found}; it holds the history of runs and where each subject stands, \
         while all results are safe in the store: move it away (`mv {path} {path}.damaged`), and the next \
         `orchestrate apply` reuses the results and finds out again where each subject stands",
        path = path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found in it.
        found: String,
    },
    /// The database was written by a newer version.
    #[error(
        "the state is of version {found}, this program knows up to {known}; use the newer program, or move .orchestrate away"
    )]
    Newer {
        /// Version found.
        found: i64,
        /// Newest version known.
        known: i64,
    },
    /// Another run of this project is going on; by whom is unknown for the
    /// moment in which it begins.
    #[error(
        "another apply of this project is running: {}; wait for it with `--wait`, or stop it",
        .0.as_ref().map_or_else(|| "it has just begun".to_owned(), Holder::to_string)
    )]
    Busy(Option<Holder>),
    /// A column does not hold what it should.
    #[error("the state holds a document that cannot be read: {0}")]
    Document(#[from] serde_json::Error),
}

impl StateError {
    /// An error of the database in a file.
    pub(super) fn of(error: rusqlite::Error, path: &Path) -> Self {
        Self::from(error).in_file(path)
    }

    /// Nothing in a file that is never made empty.
    pub(super) fn empty(path: &Path) -> Self {
        Self::Damaged { path: path.to_owned(), found: "the file is empty".to_owned() }
    }

    /// A file that was cut.
    pub(super) fn cut(path: &Path) -> Self {
        Self::Damaged { path: path.to_owned(), found: "it ends in the middle of a page".to_owned() }
    }

    /// A database without any table of ours.
    pub(super) fn foreign(path: &Path) -> Self {
        Self::Damaged { path: path.to_owned(), found: "it holds no tables of a state".to_owned() }
    }

    /// The error with the file it is about.
    pub(super) fn in_file(self, path: &Path) -> Self {
        let Self::Database(error) = self else { return self };
        let io = |kind: io::ErrorKind| Self::Io { path: path.to_owned(), source: kind.into() };
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Self::Damaged { path: path.to_owned(), found: error.to_string() }
            }
            Some(ErrorCode::DiskFull) => io(io::ErrorKind::StorageFull),
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => io(io::ErrorKind::PermissionDenied),
            _ if holds_nonsense(&error) => Self::Damaged { path: path.to_owned(), found: error.to_string() },
            _ => Self::Database(error),
        }
    }
}

impl From<rusqlite::Error> for StateError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error)
    }
}

/// Whether a value was read that this program never writes.
fn holds_nonsense(error: &rusqlite::Error) -> bool {
    use rusqlite::Error::{
        FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, SqliteFailure, Utf8Error,
    };
    match error {
        FromSqlConversionFailure(..)
        | IntegralValueOutOfRange(..)
        | InvalidColumnType(..)
        | Utf8Error(..) => true,
        // A table that is not there although the version says so.
        SqliteFailure(_, Some(message)) => message.starts_with("no such "),
        _ => false,
    }
}
