//! The project's state: runs, node records, and where each subject stands.
//!
//! One SQLite file in write-ahead mode, so that readers never wait for a run.
//! It knows nothing of how a status is decided.

mod lock;
mod needed;
mod read;
mod schema;

use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};

pub use lock::{ApplyLock, Holder};
pub use needed::NamedByRun;
pub use read::LastResult;

/// The state in one `.orchestrate` directory.
#[derive(Debug)]
pub struct State {
    connection: Connection,
}

/// What went wrong with the state.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The file system refused.
    #[error("the state in {} cannot be used: {source}; check space and permissions there", path.display())]
    Io {
        /// On which path.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The database refused.
    #[error("the state database could not be used: {0}")]
    Database(#[from] rusqlite::Error),
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
    /// Another run of this project is going on.
    #[error("another apply of this project is running: process {} since {}; wait for it or stop it", .0.pid, .0.since)]
    Busy(Holder),
    /// A column does not hold what it should.
    #[error("the state holds a document that cannot be read: {0}")]
    Document(#[from] serde_json::Error),
}

/// What became of a node in one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRow {
    /// Instance name.
    pub node: String,
    /// Kind.
    pub kind: String,
    /// Outcome word.
    pub outcome: String,
    /// Why, where it is not plain success.
    pub reason: Option<String>,
    /// Key, where one could be computed.
    pub key: Option<String>,
    /// Evidence document in the store.
    pub evidence: Option<String>,
    /// Which attempt of this run it was, from 1.
    pub attempt: u32,
    /// Start (RFC 3339).
    pub started_at: String,
    /// Duration in milliseconds.
    pub took_ms: u64,
}

/// Where a subject stands, and by what. Its JSON form is what pipelines read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SubjectRow {
    /// Name of the subject.
    pub subject: String,
    /// The plan it belongs to.
    #[serde(skip)]
    pub plan: String,
    /// The target that serves it.
    pub target: String,
    /// Runtime mode.
    pub mode: String,
    /// Rung of the ladder.
    pub status: String,
    /// When it got there (RFC 3339).
    pub since: String,
    /// By which run.
    #[serde(skip)]
    pub run: String,
    /// Digests of the evidence it stands on, with the node that wrote each.
    pub evidence: Vec<EvidenceLink>,
    /// What is missing for the next rung.
    pub missing: Vec<String>,
}

/// A piece of evidence and who wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvidenceLink {
    /// The node.
    pub node: String,
    /// Digest of the document in the store.
    pub digest: String,
}

/// A change of status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Transition {
    /// Name of the subject.
    pub subject: String,
    /// Rung before; absent for the first record.
    pub from: Option<String>,
    /// Rung after.
    pub to: String,
    /// When (RFC 3339).
    pub at: String,
    /// By which run.
    pub run: String,
    /// Why.
    pub reason: String,
}

impl State {
    /// Opens the state for writing, creating and migrating it as needed.
    pub fn open(dir: &Path) -> Result<Self, StateError> {
        std::fs::create_dir_all(dir).map_err(|source| StateError::Io { path: dir.to_owned(), source })?;
        let mut connection = Connection::open(dir.join("state.db"))?;
        connection.busy_timeout(std::time::Duration::from_secs(5))?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "foreign_keys", true)?;
        schema::migrate(&mut connection)?;
        Ok(Self { connection })
    }

    /// Records that a run begins.
    pub fn begin_run(&self, run: &str, plan: &str, at: &str) -> Result<(), StateError> {
        self.connection
            .execute("INSERT INTO runs (id, plan, started_at) VALUES (?1, ?2, ?3)", params![run, plan, at])?;
        Ok(())
    }

    /// Records how a run ended.
    pub fn end_run(&self, run: &str, at: &str, exit_code: u8) -> Result<(), StateError> {
        self.connection.execute(
            "UPDATE runs SET ended_at = ?2, exit_code = ?3 WHERE id = ?1",
            params![run, at, exit_code],
        )?;
        Ok(())
    }

    /// Runs that began and never said how they ended.
    pub fn unfinished_runs(&self) -> Result<Vec<String>, StateError> {
        let mut statement = self.connection.prepare("SELECT id FROM runs WHERE ended_at IS NULL")?;
        let runs = statement.query_map([], |row| row.get(0))?;
        Ok(runs.collect::<Result<_, _>>()?)
    }

    /// The newest run of a plan, or of any.
    pub fn latest_run(&self, plan: Option<&str>) -> Result<Option<String>, StateError> {
        let latest = self.connection.query_row(
            "SELECT id FROM runs WHERE ?1 IS NULL OR plan = ?1 ORDER BY started_at DESC, rowid DESC LIMIT 1",
            params![plan],
            |row| row.get(0),
        );
        Ok(latest.optional()?)
    }

    /// Records what became of a node; a later record of the same attempt
    /// replaces the earlier one.
    pub fn record_node(&self, run: &str, row: &NodeRow) -> Result<(), StateError> {
        self.connection.execute(
            "INSERT OR REPLACE INTO node_records
             (run, node, attempt, kind, outcome, reason, key, evidence, started_at, took_ms)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            params![
                run,
                row.node,
                row.attempt,
                row.kind,
                row.outcome,
                row.reason,
                row.key,
                row.evidence,
                row.started_at,
                i64::try_from(row.took_ms).unwrap_or(i64::MAX)
            ],
        )?;
        Ok(())
    }

    /// Every record of a run, in the order they were made.
    pub fn node_records(&self, run: &str) -> Result<Vec<NodeRow>, StateError> {
        let mut statement = self.connection.prepare(
            "SELECT node, attempt, kind, outcome, reason, key, evidence, started_at, took_ms
             FROM node_records WHERE run = ?1 ORDER BY rowid",
        )?;
        let rows = statement.query_map(params![run], |row| {
            Ok(NodeRow {
                node: row.get(0)?,
                attempt: row.get(1)?,
                kind: row.get(2)?,
                outcome: row.get(3)?,
                reason: row.get(4)?,
                key: row.get(5)?,
                evidence: row.get(6)?,
                started_at: row.get(7)?,
                took_ms: row.get::<_, i64>(8)?.try_into().unwrap_or_default(),
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Sets where a subject stands. `since` and `run` stay while the rung
    /// stays; each change of rung is a transition of its own, which the caller
    /// gives in order.
    pub fn set_subject(&self, row: &SubjectRow, transitions: &[Transition]) -> Result<(), StateError> {
        let transaction = self.connection.unchecked_transaction()?;
        let before: Option<(String, String, String)> = transaction
            .query_row(
                "SELECT status, since, run FROM subjects WHERE subject = ?1",
                params![row.subject],
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
            )
            .optional()?;
        let (since, run) = match &before {
            Some((status, since, run)) if *status == row.status => (since, run),
            _ => (&row.since, &row.run),
        };
        transaction.execute(
            "INSERT OR REPLACE INTO subjects
             (subject, plan, target, mode, status, since, run, evidence, missing)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            params![
                row.subject,
                row.plan,
                row.target,
                row.mode,
                row.status,
                since,
                run,
                serde_json::to_string(&row.evidence)?,
                serde_json::to_string(&row.missing)?
            ],
        )?;
        for step in transitions {
            transaction.execute(
                "INSERT INTO transitions (subject, from_status, to_status, at, run, reason)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                params![step.subject, step.from, step.to, step.at, step.run, step.reason],
            )?;
        }
        transaction.commit()?;
        Ok(())
    }

    /// Every subject, by name.
    pub fn subjects(&self) -> Result<Vec<SubjectRow>, StateError> {
        let mut statement = self.connection.prepare(
            "SELECT subject, plan, target, mode, status, since, run, evidence, missing
             FROM subjects ORDER BY subject",
        )?;
        let mut rows = statement.query([])?;
        let mut subjects = Vec::new();
        while let Some(row) = rows.next()? {
            subjects.push(SubjectRow {
                subject: row.get(0)?,
                plan: row.get(1)?,
                target: row.get(2)?,
                mode: row.get(3)?,
                status: row.get(4)?,
                since: row.get(5)?,
                run: row.get(6)?,
                evidence: serde_json::from_str(&row.get::<_, String>(7)?)?,
                missing: serde_json::from_str(&row.get::<_, String>(8)?)?,
            });
        }
        Ok(subjects)
    }

    /// Every change of status, oldest first.
    pub fn transitions(&self) -> Result<Vec<Transition>, StateError> {
        let mut statement = self.connection.prepare(
            "SELECT subject, from_status, to_status, at, run, reason FROM transitions ORDER BY rowid",
        )?;
        let rows = statement.query_map([], |row| {
            Ok(Transition {
                subject: row.get(0)?,
                from: row.get(1)?,
                to: row.get(2)?,
                at: row.get(3)?,
                run: row.get(4)?,
                reason: row.get(5)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(status: &str, since: &str) -> SubjectRow {
        SubjectRow {
            subject: "s".to_owned(),
            plan: "p".to_owned(),
            target: "t".to_owned(),
            mode: "ordinary".to_owned(),
            status: status.to_owned(),
            since: since.to_owned(),
            run: "r1".to_owned(),
            evidence: vec![EvidenceLink { node: "n".to_owned(), digest: "d".to_owned() }],
            missing: vec!["x".to_owned()],
        }
    }

    #[test]
    fn a_rung_keeps_its_beginning_and_every_change_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let state = State::open(dir.path()).unwrap();
        let step = |from: Option<&str>, to: &str, at: &str| Transition {
            subject: "s".to_owned(),
            from: from.map(str::to_owned),
            to: to.to_owned(),
            at: at.to_owned(),
            run: "r1".to_owned(),
            reason: "because".to_owned(),
        };
        let first = step(None, "planned", "1");
        let up = step(Some("planned"), "implemented", "3");
        state.set_subject(&subject("planned", "1"), std::slice::from_ref(&first)).unwrap();
        state.set_subject(&subject("planned", "2"), &[]).unwrap();
        assert_eq!(state.subjects().unwrap(), [subject("planned", "1")]);
        state.set_subject(&subject("implemented", "3"), std::slice::from_ref(&up)).unwrap();
        assert_eq!(state.subjects().unwrap(), [subject("implemented", "3")]);
        assert_eq!(state.transitions().unwrap(), [first, up]);
    }

    #[test]
    fn records_of_a_run_come_back_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let state = State::open(dir.path()).unwrap();
        state.begin_run("r1", "p", "1").unwrap();
        let row = |node: &str, outcome: &str| NodeRow {
            node: node.to_owned(),
            kind: "fetch".to_owned(),
            outcome: outcome.to_owned(),
            reason: None,
            key: None,
            evidence: None,
            attempt: 1,
            started_at: "1".to_owned(),
            took_ms: 5,
        };
        state.record_node("r1", &row("b", "running")).unwrap();
        state.record_node("r1", &row("a", "reused")).unwrap();
        state.record_node("r1", &row("b", "failed")).unwrap();
        let names: Vec<_> =
            state.node_records("r1").unwrap().into_iter().map(|r| (r.node, r.outcome)).collect();
        assert_eq!(names, [("a".into(), "reused".into()), ("b".into(), "failed".into())]);
        assert_eq!(state.unfinished_runs().unwrap(), ["r1"]);
        state.end_run("r1", "2", 0).unwrap();
        assert!(state.unfinished_runs().unwrap().is_empty());
        assert_eq!(state.latest_run(Some("p")).unwrap().as_deref(), Some("r1"));
        assert_eq!(state.latest_run(Some("q")).unwrap(), None);
    }
}
