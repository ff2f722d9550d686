//! The project's state: runs, node records, leases, and where each subject
//! stands.
//!
//! One SQLite file in write-ahead mode, so that readers never wait for a run.
//! Every change is one transaction, synced when the call returns. It knows
//! nothing of how a status is decided, nor of which processes live.

mod access;
mod create;
mod error;
mod leases;
mod lock;
mod needed;
mod read;
mod records;
mod schema;
mod subjects;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};
use tempfile::TempDir;

use schema::Age;

pub use error::StateError;
pub use leases::{Lease, LeaseKind};
pub use lock::{ApplyLock, Holder};
pub use needed::NamedByRun;
pub use read::LastResult;
pub use records::{NodeRow, RunRow};
pub use subjects::{EvidenceLink, SubjectRow, Transition};

/// The database's file in the state directory.
const FILE: &str = "state.db";
/// Bytes of a page, which SQLite does not change by itself.
const PAGE: u64 = 4096;
/// How long one connection waits for a change that another one is making.
const BUSY: Duration = Duration::from_secs(5);
/// More statements than the state has.
const STATEMENTS: usize = 64;

/// The state in one `.orchestrate` directory.
#[derive(Debug)]
pub struct State {
    connection: Connection,
    path: PathBuf,
    /// The directory that a reader's copy of the database is in.
    _copy: Option<TempDir>,
}

impl State {
    /// Opens the state for writing, creating and migrating it as needed.
    pub fn open(dir: &Path) -> Result<Self, StateError> {
        let path = dir.join(FILE);
        create::ensure(&path)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection =
            Connection::open_with_flags(&path, flags).map_err(|error| StateError::of(error, &path))?;
        let mut state = Self { connection, path, _copy: None };
        if state.age()? == Age::Unborn {
            return Err(StateError::foreign(&state.path));
        }
        prepare(&mut state.connection).map_err(|error| error.in_file(&state.path))?;
        Ok(state)
    }

    /// How old the tables are of what is a whole database.
    fn age(&self) -> Result<Age, StateError> {
        let age = self.ask(schema::age)?;
        // A log holds the pages that a power cut kept from the file.
        let size = std::fs::metadata(&self.path).map_or(0, |metadata| metadata.len());
        if !size.is_multiple_of(PAGE) && !access::has_log(&self.path) {
            return Err(StateError::cut(&self.path));
        }
        Ok(age)
    }

    /// Looks at every page of the database. Its time grows with all that was
    /// ever recorded: it is meant for after a run that was killed.
    pub fn check(&self) -> Result<(), StateError> {
        let found: String =
            self.ask(|connection| Ok(connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?))?;
        if found == "ok" {
            return Ok(());
        }
        Err(StateError::Damaged { path: self.path.clone(), found })
    }

    /// Asks the database; an error names its file.
    fn ask<T>(&self, question: impl FnOnce(&Connection) -> Result<T, StateError>) -> Result<T, StateError> {
        question(&self.connection).map_err(|error| error.in_file(&self.path))
    }

    /// Changes the database: everything or nothing, and durable on return.
    ///
    /// The transaction holds the right to write from its beginning: one that
    /// asks for it only after it has read fails where another connection wrote
    /// in between.
    fn change<T>(&self, changes: impl FnOnce(&Connection) -> Result<T, StateError>) -> Result<T, StateError> {
        self.ask(|connection| {
            let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
            let done = changes(&transaction)?;
            transaction.commit()?;
            Ok(done)
        })
    }
}

/// Sets a connection for writing up, and brings its database to the newest version.
fn prepare(connection: &mut Connection) -> Result<(), StateError> {
    connection.busy_timeout(BUSY)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    schema::migrate(connection)
}
