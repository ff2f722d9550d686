//! Reading a state without leaving a trace in its directory.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use rusqlite::backup::Backup;
use rusqlite::{Connection, params};

use super::access::{self, Access, Stamp};
use super::schema::Age;
use super::{BUSY, FILE, State, StateError, schema};

/// Pages that are copied at a time.
const PAGES: std::ffi::c_int = 1024;

/// What the state knows of the last time a node was there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastResult {
    /// The key of the newest record that succeeded or was reused.
    pub key: Option<String>,
    /// When that record was made (RFC 3339).
    pub at: String,
    /// How long the newest execution that succeeded took, in milliseconds.
    pub took_ms: Option<u64>,
    /// Why the attempt before it failed, where it took more than one in its run.
    pub retried: Option<String>,
    /// What was said of that record, such as how a server was stopped.
    pub said: Option<String>,
}

/// How often a state is read again that somebody changed meanwhile.
const READS: usize = 8;

/// The newest result of each node of a plan, and how long the newest one took
/// that was made. It steps from name to name through an index, so that its
/// time grows with the nodes and not with the runs.
const LAST_RESULTS: &str = "
    WITH RECURSIVE names (node) AS (
        SELECT MIN(node) FROM node_records
        UNION ALL
        SELECT (SELECT MIN(node) FROM node_records WHERE node > names.node)
        FROM names WHERE names.node IS NOT NULL
    ),
    newest (made, reused) AS MATERIALIZED (
        SELECT
            (SELECT r.rowid FROM node_records r JOIN runs ON runs.id = r.run
             WHERE r.node = names.node AND outcome = 'succeeded' AND plan = ?1
             ORDER BY r.rowid DESC LIMIT 1),
            (SELECT r.rowid FROM node_records r JOIN runs ON runs.id = r.run
             WHERE r.node = names.node AND outcome = 'reused' AND plan = ?1
             ORDER BY r.rowid DESC LIMIT 1)
        FROM names
    )
    SELECT last.node, last.key, last.started_at, made.took_ms, tried.reason, last.reason
    FROM newest
    JOIN node_records last ON last.rowid = MAX(COALESCE(newest.made, 0), COALESCE(newest.reused, 0))
    LEFT JOIN node_records made ON made.rowid = newest.made
    LEFT JOIN node_records tried
        ON tried.run = last.run AND tried.node = last.node AND tried.attempt = last.attempt - 1";

impl State {
    /// Asks the state of one moment; nothing where there is no state yet. Not
    /// a file of it is made or changed, and a run that goes on is not waited for.
    pub fn read<T>(
        dir: &Path,
        question: impl Fn(&Self) -> Result<T, StateError>,
    ) -> Result<Option<T>, StateError> {
        let path = dir.join(FILE);
        for _ in 1..READS {
            let before = Stamp::of(&path);
            let answer = Self::ask_once(dir, &question);
            // What was read without the index of a writer can be of two moments.
            if before == Stamp::of(&path) || (before.access == Access::Live && answer.is_ok()) {
                return answer;
            }
        }
        Self::ask_once(dir, &question)
    }

    fn ask_once<T>(
        dir: &Path,
        question: impl Fn(&Self) -> Result<T, StateError>,
    ) -> Result<Option<T>, StateError> {
        let Some(state) = Self::open_existing(dir)? else { return Ok(None) };
        state.ask(|connection| Ok(connection.execute_batch("BEGIN")?))?;
        question(&state).map(Some)
    }

    /// Opens the state for reading; nothing where there is none yet. One that
    /// an older version wrote is read through a copy in memory. Not a file is
    /// made or changed.
    pub fn open_existing(dir: &Path) -> Result<Option<Self>, StateError> {
        let path = dir.join(FILE);
        match std::fs::metadata(&path) {
            Ok(metadata) if metadata.len() == 0 => return Err(StateError::empty(&path)),
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(StateError::Io { path, source }),
        }
        let (connection, copy) = access::open(&path).map_err(|error| error.in_file(&path))?;
        let mut state = Self { connection, path, _copy: copy };
        state.ask(|connection| Ok(connection.busy_timeout(BUSY)?))?;
        match state.age()? {
            Age::Unborn => return Err(StateError::foreign(&state.path)),
            Age::Old => state.connection = state.ask(migrated_copy)?,
            Age::Current => {}
        }
        Ok(Some(state))
    }

    /// The last result of each node of a plan, by node.
    pub fn last_results(&self, plan: &str) -> Result<BTreeMap<String, LastResult>, StateError> {
        self.ask(|connection| {
            let mut statement = connection.prepare_cached(LAST_RESULTS)?;
            let mut rows = statement.query(params![plan])?;
            let mut last = BTreeMap::new();
            while let Some(row) = rows.next()? {
                let took: Option<i64> = row.get(3)?;
                let result = LastResult {
                    key: row.get(1)?,
                    at: row.get(2)?,
                    took_ms: took.and_then(|took| took.try_into().ok()),
                    retried: row.get(4)?,
                    said: row.get(5)?,
                };
                last.insert(row.get(0)?, result);
            }
            Ok(last)
        })
    }
}

/// A database in memory with the same content and the newest tables.
fn migrated_copy(connection: &Connection) -> Result<Connection, StateError> {
    let mut copy = Connection::open_in_memory()?;
    Backup::new(connection, &mut copy)?.run_to_completion(PAGES, Duration::ZERO, None)?;
    schema::migrate(&mut copy)?;
    Ok(copy)
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
        let last = LastResult {
            key: Some("k3".to_owned()),
            at: "r3".to_owned(),
            took_ms: Some(90),
            retried: None,
            said: None,
        };
        assert_eq!(state.last_results("p").unwrap()["n"], last);
    }
}
