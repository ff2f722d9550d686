//! Where each subject stands, and how it got there.

use rusqlite::{OptionalExtension, params};
use serde::{Deserialize, Serialize};

use super::{State, StateError};

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
    /// Digest of the evidence that moved it; absent where it is the lack of
    /// evidence that did.
    pub evidence: Option<String>,
}

impl State {
    /// Sets where a subject stands. `since` and `run` stay while the rung
    /// stays; each change of rung is a transition of its own, which the caller
    /// gives in order.
    pub fn set_subject(&self, row: &SubjectRow, transitions: &[Transition]) -> Result<(), StateError> {
        self.change(|connection| {
            let before: Option<(String, String, String)> = connection
                .prepare_cached("SELECT status, since, run FROM subjects WHERE subject = ?1")?
                .query_row(params![row.subject], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
                .optional()?;
            let (since, run) = match &before {
                Some((status, since, run)) if *status == row.status => (since, run),
                _ => (&row.since, &row.run),
            };
            let mut subject = connection.prepare_cached(
                "INSERT OR REPLACE INTO subjects
                 (subject, plan, target, mode, status, since, run, evidence, missing)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?;
            subject.execute(params![
                row.subject,
                row.plan,
                row.target,
                row.mode,
                row.status,
                since,
                run,
                serde_json::to_string(&row.evidence)?,
                serde_json::to_string(&row.missing)?
            ])?;
            let mut moved = connection.prepare_cached(
                "INSERT INTO transitions (subject, from_status, to_status, at, run, reason, evidence)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?;
            for Transition { subject, from, to, at, run, reason, evidence } in transitions {
                moved.execute(params![subject, from, to, at, run, reason, evidence])?;
            }
            Ok(())
        })
    }

    /// Every subject, by name.
    pub fn subjects(&self) -> Result<Vec<SubjectRow>, StateError> {
        self.ask(|connection| {
            let mut statement = connection.prepare_cached(
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
        })
    }

    /// Every change of status, oldest first.
    pub fn transitions(&self) -> Result<Vec<Transition>, StateError> {
        self.ask(|connection| {
            let mut statement = connection.prepare_cached(
                "SELECT subject, from_status, to_status, at, run, reason, evidence
                 FROM transitions ORDER BY rowid",
            )?;
            let rows = statement.query_map([], |row| {
                Ok(Transition {
                    subject: row.get(0)?,
                    from: row.get(1)?,
                    to: row.get(2)?,
                    at: row.get(3)?,
                    run: row.get(4)?,
                    reason: row.get(5)?,
                    evidence: row.get(6)?,
                })
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
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

    fn step(from: Option<&str>, to: &str, at: &str) -> Transition {
        Transition {
            subject: "s".to_owned(),
            from: from.map(str::to_owned),
            to: to.to_owned(),
            at: at.to_owned(),
            run: "r1".to_owned(),
            reason: "because".to_owned(),
            evidence: from.map(|_| "d".to_owned()),
        }
    }

    #[test]
    fn a_rung_keeps_its_beginning_and_every_change_is_kept_with_its_evidence() {
        let dir = tempfile::tempdir().unwrap();
        let state = State::open(dir.path()).unwrap();
        state.begin_run("r1", "p", "1").unwrap();
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
    fn a_change_of_status_by_no_known_run_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let state = State::open(dir.path()).unwrap();
        let error = state.set_subject(&subject("planned", "1"), &[step(None, "planned", "1")]).unwrap_err();
        assert!(error.to_string().contains("FOREIGN KEY"), "{error}");
        assert_eq!(state.subjects().unwrap(), []);
    }
}
