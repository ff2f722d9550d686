//! Runs, and what became of each node in them.

use rusqlite::{CachedStatement, Connection, OptionalExtension, Row, params};

use super::{State, StateError};

/// The outcome of a node whose work has begun: the intention, which the
/// record of what became of it replaces.
const RUNNING: &str = "running";

/// A run, begun and perhaps ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRow {
    /// Its id.
    pub id: String,
    /// The plan's name.
    pub plan: String,
    /// When it began (RFC 3339).
    pub started_at: String,
}

/// What became of a node in one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRow {
    /// Instance name.
    pub node: String,
    /// Kind.
    pub kind: String,
    /// Outcome word; `running` before there is one.
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

impl State {
    /// Records that a run begins.
    pub fn begin_run(&self, run: &str, plan: &str, at: &str) -> Result<(), StateError> {
        self.ask(|connection| {
            connection
                .prepare_cached("INSERT INTO runs (id, plan, started_at) VALUES (?1, ?2, ?3)")?
                .execute(params![run, plan, at])?;
            Ok(())
        })
    }

    /// Records how a run ended. Leases of processes that still end stay.
    pub fn end_run(&self, run: &str, at: &str, exit_code: u8) -> Result<(), StateError> {
        self.change(|connection| {
            connection
                .prepare_cached("DELETE FROM leases WHERE run = ?1 AND what = 'orchestrator'")?
                .execute(params![run])?;
            end(connection, run, at, exit_code)
        })
    }

    /// Records that a run was killed: the nodes that were running are
    /// cancelled for that reason. Returns those nodes.
    pub fn end_killed_run(
        &self,
        run: &str,
        at: &str,
        exit_code: u8,
        reason: &str,
    ) -> Result<Vec<String>, StateError> {
        self.change(|connection| {
            let mut cancel = connection.prepare_cached(
                "UPDATE node_records SET outcome = 'cancelled', reason = ?2
                 WHERE run = ?1 AND outcome = 'running' RETURNING node",
            )?;
            let cancelled = cancel.query_map(params![run, reason], |row| row.get(0))?;
            let cancelled = cancelled.collect::<Result<_, _>>()?;
            end(connection, run, at, exit_code)?;
            Ok(cancelled)
        })
    }

    /// Runs that began and never said how they ended, oldest first: one that
    /// goes on, and those that were killed since the last `apply`.
    pub fn unfinished_runs(&self) -> Result<Vec<RunRow>, StateError> {
        self.ask(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT id, plan, started_at FROM runs WHERE ended_at IS NULL ORDER BY rowid",
            )?;
            let runs = statement.query_map([], |row| {
                Ok(RunRow { id: row.get(0)?, plan: row.get(1)?, started_at: row.get(2)? })
            })?;
            Ok(runs.collect::<Result<_, _>>()?)
        })
    }

    /// The newest run of a plan, or of any.
    pub fn latest_run(&self, plan: Option<&str>) -> Result<Option<String>, StateError> {
        self.ask(|connection| {
            let mut statement = match plan {
                Some(_) => connection
                    .prepare_cached("SELECT id FROM runs WHERE plan = ?1 ORDER BY rowid DESC LIMIT 1"),
                None => connection
                    .prepare_cached("SELECT id FROM runs WHERE ?1 IS NULL ORDER BY rowid DESC LIMIT 1"),
            }?;
            Ok(statement.query_row(params![plan], |row| row.get(0)).optional()?)
        })
    }

    /// The ids of the newest runs, newest first, at most `count`.
    pub fn latest_runs(&self, count: u32) -> Result<Vec<String>, StateError> {
        self.ask(|connection| {
            let mut statement =
                connection.prepare_cached("SELECT id FROM runs ORDER BY rowid DESC LIMIT ?1")?;
            let runs = statement.query_map(params![count], |row| row.get(0))?;
            Ok(runs.collect::<Result<_, _>>()?)
        })
    }

    /// Records what became of a node; a later record of the same attempt
    /// replaces the earlier one.
    pub fn record_node(&self, run: &str, row: &NodeRow) -> Result<(), StateError> {
        self.ask(|connection| Ok(insert(&mut insertion(connection)?, run, row)?))
    }

    /// Records what became of many nodes: of all of them, or of none.
    pub fn record_nodes(&self, run: &str, rows: &[NodeRow]) -> Result<(), StateError> {
        self.change(|connection| {
            let mut statement = insertion(connection)?;
            rows.iter().try_for_each(|row| insert(&mut statement, run, row))?;
            Ok(())
        })
    }

    /// Every record of a run, in the order they were made.
    pub fn node_records(&self, run: &str) -> Result<Vec<NodeRow>, StateError> {
        self.ask(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT node, attempt, kind, outcome, reason, key, evidence, started_at, took_ms
                 FROM node_records WHERE run = ?1 ORDER BY rowid",
            )?;
            let rows = statement.query_map(params![run], node_row)?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    /// The nodes of a run that are at work, in the order they began.
    pub fn running_nodes(&self, run: &str) -> Result<Vec<String>, StateError> {
        let rows = self.node_records(run)?.into_iter().filter(|row| row.outcome == RUNNING);
        Ok(rows.map(|row| row.node).collect())
    }
}

fn end(connection: &Connection, run: &str, at: &str, exit_code: u8) -> Result<(), StateError> {
    connection
        .prepare_cached("UPDATE runs SET ended_at = ?2, exit_code = ?3 WHERE id = ?1")?
        .execute(params![run, at, exit_code])?;
    Ok(())
}

fn insertion(connection: &Connection) -> rusqlite::Result<CachedStatement<'_>> {
    connection.prepare_cached(
        "INSERT OR REPLACE INTO node_records
         (run, node, attempt, kind, outcome, reason, key, evidence, started_at, took_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )
}

fn insert(statement: &mut CachedStatement<'_>, run: &str, row: &NodeRow) -> rusqlite::Result<()> {
    let took_ms = i64::try_from(row.took_ms).unwrap_or(i64::MAX);
    statement.execute(params![
        run,
        row.node,
        row.attempt,
        row.kind,
        row.outcome,
        row.reason,
        row.key,
        row.evidence,
        row.started_at,
        took_ms
    ])?;
    Ok(())
}

fn node_row(row: &Row<'_>) -> rusqlite::Result<NodeRow> {
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
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn row(node: &str, outcome: &str) -> NodeRow {
        NodeRow {
            node: node.to_owned(),
            kind: "fetch".to_owned(),
            outcome: outcome.to_owned(),
            reason: None,
            key: Some("k".repeat(64)),
            evidence: None,
            attempt: 1,
            started_at: "1".to_owned(),
            took_ms: 5,
        }
    }

    fn ids(runs: Vec<RunRow>) -> Vec<String> {
        runs.into_iter().map(|run| run.id).collect()
    }

    #[test]
    fn records_of_a_run_come_back_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let state = State::open(dir.path()).unwrap();
        state.begin_run("r1", "p", "1").unwrap();
        state.record_node("r1", &row("b", "running")).unwrap();
        state.record_node("r1", &row("a", "reused")).unwrap();
        assert_eq!(state.running_nodes("r1").unwrap(), ["b"]);
        state.record_node("r1", &row("b", "failed")).unwrap();
        let names: Vec<_> =
            state.node_records("r1").unwrap().into_iter().map(|r| (r.node, r.outcome)).collect();
        assert_eq!(names, [("a".into(), "reused".into()), ("b".into(), "failed".into())]);
        assert_eq!(ids(state.unfinished_runs().unwrap()), ["r1"]);
        state.end_run("r1", "2", 0).unwrap();
        assert!(state.unfinished_runs().unwrap().is_empty());
        assert_eq!(state.latest_run(Some("p")).unwrap().as_deref(), Some("r1"));
        assert_eq!(state.latest_run(Some("q")).unwrap(), None);
        assert_eq!(state.latest_runs(9).unwrap(), ["r1"]);
    }

    #[test]
    fn what_ran_in_a_killed_run_is_cancelled_with_the_reason_and_the_rest_stays() {
        let dir = tempfile::tempdir().unwrap();
        let state = State::open(dir.path()).unwrap();
        state.begin_run("r1", "p", "1").unwrap();
        state.record_nodes("r1", &[row("a", "succeeded"), row("b", "running")]).unwrap();
        assert_eq!(state.end_killed_run("r1", "2", 137, "its run was killed").unwrap(), ["b"]);
        let cancelled = NodeRow { reason: Some("its run was killed".to_owned()), ..row("b", "cancelled") };
        assert_eq!(state.node_records("r1").unwrap(), [row("a", "succeeded"), cancelled]);
        assert!(state.unfinished_runs().unwrap().is_empty());
    }

    #[test]
    fn ten_thousand_records_are_one_quick_transaction() {
        let dir = tempfile::tempdir().unwrap();
        let state = State::open(dir.path()).unwrap();
        state.begin_run("r1", "p", "1").unwrap();
        let rows: Vec<_> = (0..10_000).map(|n| row(&format!("node[{n}]"), "reused")).collect();
        let begun = Instant::now();
        state.record_nodes("r1", &rows).unwrap();
        let took = begun.elapsed();
        assert_eq!(state.node_records("r1").unwrap().len(), 10_000);
        // 50 to 100 ms without optimisation; each by itself takes seconds.
        assert!(took < Duration::from_millis(500), "{took:?}");
    }

    #[test]
    fn records_of_a_run_that_never_began_are_refused_all_together() {
        let dir = tempfile::tempdir().unwrap();
        let state = State::open(dir.path()).unwrap();
        let error = state.record_nodes("r9", &[row("a", "reused"), row("b", "reused")]).unwrap_err();
        assert!(error.to_string().contains("FOREIGN KEY"), "{error}");
        assert!(state.node_records("r9").unwrap().is_empty());
    }
}
