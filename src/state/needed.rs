//! What the runs and subjects of a project name in the store.

use rusqlite::params;

use super::{State, StateError};

/// What a run's records name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamedByRun {
    /// Keys of nodes.
    pub keys: Vec<String>,
    /// Evidence documents.
    pub evidence: Vec<String>,
}

impl State {
    /// The newest runs of each plan, in the order they were begun.
    pub fn newest_runs(&self, of_each_plan: usize) -> Result<Vec<String>, StateError> {
        let mut statement = self.connection.prepare(
            "SELECT id FROM
             (SELECT id, rowid AS nth, ROW_NUMBER() OVER (PARTITION BY plan ORDER BY rowid DESC) AS age FROM runs)
             WHERE age <= ?1 ORDER BY nth",
        )?;
        let most = i64::try_from(of_each_plan).unwrap_or(i64::MAX);
        let runs = statement.query_map(params![most], |row| row.get(0))?;
        Ok(runs.collect::<Result<_, _>>()?)
    }

    /// Whether there was such a run.
    pub fn has_run(&self, run: &str) -> Result<bool, StateError> {
        Ok(self.connection.prepare("SELECT 1 FROM runs WHERE id = ?1")?.exists(params![run])?)
    }

    /// What the records of a run name.
    pub fn named_by(&self, run: &str) -> Result<NamedByRun, StateError> {
        let mut named = NamedByRun::default();
        for record in self.node_records(run)? {
            named.keys.extend(record.key);
            named.evidence.extend(record.evidence);
        }
        Ok(named)
    }

    /// Every evidence document that a record of any run names.
    pub fn all_evidence(&self) -> Result<Vec<String>, StateError> {
        let mut statement = self
            .connection
            .prepare("SELECT DISTINCT evidence FROM node_records WHERE evidence IS NOT NULL")?;
        let evidence = statement.query_map([], |row| row.get(0))?;
        Ok(evidence.collect::<Result<_, _>>()?)
    }
}

#[cfg(test)]
mod tests {
    use super::super::NodeRow;
    use super::*;

    #[test]
    fn the_newest_runs_are_those_begun_last_whatever_the_clock_said() {
        let dir = tempfile::tempdir().unwrap();
        let state = State::open(dir.path()).unwrap();
        for (run, plan, at) in [("a1", "a", "9"), ("b1", "b", "5"), ("a2", "a", "1"), ("a3", "a", "2")] {
            state.begin_run(run, plan, at).unwrap();
        }
        assert_eq!(state.newest_runs(2).unwrap(), ["b1", "a2", "a3"]);
        assert_eq!(state.newest_runs(0).unwrap(), [""; 0]);
        assert!(state.has_run("a1").unwrap() && !state.has_run("c1").unwrap());
    }

    #[test]
    fn what_a_run_names_is_what_its_records_name() {
        let dir = tempfile::tempdir().unwrap();
        let state = State::open(dir.path()).unwrap();
        state.begin_run("r", "p", "1").unwrap();
        for (node, key, evidence) in [("n", Some("k"), Some("e")), ("m", None, None)] {
            let row = NodeRow {
                node: node.to_owned(),
                kind: "fetch".to_owned(),
                outcome: "succeeded".to_owned(),
                reason: None,
                key: key.map(str::to_owned),
                evidence: evidence.map(str::to_owned),
                attempt: 1,
                started_at: "1".to_owned(),
                took_ms: 1,
            };
            state.record_node("r", &row).unwrap();
        }
        let reader = State::open_existing(dir.path()).unwrap().unwrap();
        let named = NamedByRun { keys: vec!["k".to_owned()], evidence: vec!["e".to_owned()] };
        assert_eq!(reader.named_by("r").unwrap(), named);
        assert_eq!(reader.all_evidence().unwrap(), ["e"]);
    }
}
