//! Reading a state without leaving a trace in its directory.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rusqlite::{Connection, OpenFlags, params};

use super::{State, StateError, schema};

/// What the state knows of the last time a node was there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastResult {
    /// The key of the newest record that succeeded or was reused.
    pub key: Option<String>,
    /// When that record was made (RFC 3339).
    pub at: String,
    /// How long the newest execution that succeeded took, in milliseconds.
    pub took_ms: Option<u64>,
}

impl State {
    /// Opens the state for reading; nothing where there is none yet, or where
    /// an older version wrote it. Not a file is made or changed.
    pub fn open_existing(dir: &Path) -> Result<Option<Self>, StateError> {
        let path = dir.join("state.db");
        if !path.is_file() {
            return Ok(None);
        }
        let path = std::path::absolute(&path).map_err(|source| StateError::Io { path, source })?;
        let flags =
            OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(uri(&path), flags)?;
        connection.busy_timeout(std::time::Duration::from_secs(5))?;
        Ok(schema::is_current(&connection)?.then_some(Self { connection }))
    }

    /// Keys of the newest run's nodes, in the order they were recorded.
    pub fn latest_keys(&self) -> Result<Vec<String>, StateError> {
        let mut statement = self.connection.prepare(
            "SELECT key FROM node_records WHERE key IS NOT NULL AND run =
             (SELECT id FROM runs ORDER BY started_at DESC, rowid DESC LIMIT 1) ORDER BY rowid",
        )?;
        let keys = statement.query_map([], |row| row.get(0))?;
        Ok(keys.collect::<Result<_, _>>()?)
    }

    /// The last result of each node of a plan, by node.
    pub fn last_results(&self, plan: &str) -> Result<BTreeMap<String, LastResult>, StateError> {
        // Beside MAX, SQLite gives the other columns of the row that has it.
        let mut statement = self.connection.prepare(
            "SELECT node, outcome, key, node_records.started_at, took_ms, MAX(node_records.rowid)
             FROM node_records JOIN runs ON runs.id = node_records.run
             WHERE runs.plan = ?1 AND outcome IN ('succeeded', 'reused')
             GROUP BY node, outcome
             ORDER BY MAX(node_records.rowid)",
        )?;
        let mut rows = statement.query(params![plan])?;
        let mut last: BTreeMap<String, LastResult> = BTreeMap::new();
        while let Some(row) = rows.next()? {
            let made = row.get::<_, String>(1)? == "succeeded";
            let took = made.then(|| row.get::<_, i64>(4)).transpose()?.and_then(|took| took.try_into().ok());
            let node: String = row.get(0)?;
            let earlier = last.get(&node).and_then(|last| last.took_ms);
            let newest = LastResult { key: row.get(2)?, at: row.get(3)?, took_ms: took.or(earlier) };
            last.insert(node, newest);
        }
        Ok(last)
    }
}

/// The name under which SQLite reads a database and writes nothing beside it.
/// Without a write-ahead log the file is all there is; a log is read through
/// the index that its writer keeps beside it (<https://sqlite.org/uri.html>).
/// Where that index is gone, what was written last is not seen.
fn uri(path: &Path) -> String {
    let beside = |suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        std::fs::metadata(name).map_or(0, |metadata| metadata.len())
    };
    let live = beside("-wal") > 0 && beside("-shm") > 0;
    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/.-_".contains(byte) {
            uri.push(char::from(*byte));
        } else {
            // Writing into a string does not fail.
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri + if live { "?mode=ro&readonly_shm=1" } else { "?immutable=1" }
}

#[cfg(test)]
mod tests {
    use super::super::NodeRow;
    use super::*;

    fn files(dir: &Path) -> usize {
        std::fs::read_dir(dir).unwrap().count()
    }

    fn record(state: &State, run: &str, outcome: &str, key: &str, took_ms: u64) {
        state.begin_run(run, "p", run).unwrap();
        let row = NodeRow {
            node: "n".to_owned(),
            kind: "fetch".to_owned(),
            outcome: outcome.to_owned(),
            reason: None,
            key: Some(key.to_owned()),
            evidence: None,
            attempt: 1,
            started_at: run.to_owned(),
            took_ms,
        };
        state.record_node(run, &row).unwrap();
    }

    /// That nothing at all changes is seen from outside, in `tests/dry_run.rs`:
    /// within one process SQLite shares the index between reader and writer.
    #[test]
    fn a_state_is_read_while_it_is_written_and_after() {
        let dir = tempfile::Builder::new().prefix("a b%3f#").tempdir().unwrap();
        assert!(State::open_existing(dir.path()).unwrap().is_none());
        let state = State::open(dir.path()).unwrap();
        record(&state, "r1", "succeeded", "k1", 70);
        let reader = State::open_existing(dir.path()).unwrap().unwrap();
        assert_eq!(reader.last_results("p").unwrap()["n"].key.as_deref(), Some("k1"));
        drop(reader);
        drop(state);
        assert_eq!(files(dir.path()), 1, "the log was left");
        let reader = State::open_existing(dir.path()).unwrap().unwrap();
        assert_eq!(reader.last_results("p").unwrap()["n"].key.as_deref(), Some("k1"));
        assert!(reader.last_results("another").unwrap().is_empty());
        drop(reader);
        assert_eq!(files(dir.path()), 1);
    }

    #[test]
    fn the_last_result_is_the_newest_and_its_duration_is_of_the_last_that_was_made() {
        let dir = tempfile::tempdir().unwrap();
        let state = State::open(dir.path()).unwrap();
        record(&state, "r1", "succeeded", "k1", 70);
        record(&state, "r2", "succeeded", "k2", 90);
        record(&state, "r3", "reused", "k3", 0);
        record(&state, "r4", "failed", "k4", 10);
        let last = LastResult { key: Some("k3".to_owned()), at: "r3".to_owned(), took_ms: Some(90) };
        assert_eq!(state.last_results("p").unwrap()["n"], last);
    }
}
