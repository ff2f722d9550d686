//! What the projects of a store still need of it.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::state::{State, StateError};
use crate::store::{Needed, Project};
use crate::value::Digest;

/// It cannot be told what is still needed, so nothing may be removed.
#[derive(Debug, thiserror::Error)]
pub enum RetentionError {
    /// A project's state cannot be read.
    #[error("nothing was removed: what the project in {} needs is not known, because {source}", project.display())]
    State {
        /// The project's state directory.
        project: PathBuf,
        /// Why not.
        source: StateError,
    },
    /// A project's state names something that is no digest.
    #[error("nothing was removed: the state in {} names {text:?}, which is no digest; move that directory away", project.display())]
    NoDigest {
        /// The project's state directory.
        project: PathBuf,
        /// What it names.
        text: String,
    },
    /// A run that is to be kept is of no known project.
    #[error(
        "nothing was removed: no project of this store has a run {0}; `orchestrate store stats` lists the projects"
    )]
    UnknownRun(String),
}

/// What must stay: everything that the newest runs of each plan and the named
/// runs used, and the evidence that subjects stand on, in every project that
/// is still there. What only older runs name may go when space is wanted.
pub fn needed(
    projects: &[Project],
    newest_of_each_plan: usize,
    named_runs: &[String],
) -> Result<Needed, RetentionError> {
    let mut needed = Needed::default();
    let mut known_runs = HashSet::new();
    for project in projects.iter().filter(|project| project.exists) {
        let dir = &project.state_dir;
        let named = State::read(dir, |state| named_in(state, newest_of_each_plan, named_runs));
        let named = named.map_err(|source| RetentionError::State { project: dir.clone(), source })?;
        let Some(named) = named else { continue };
        needed.keys.extend(digests(dir, &named.keys)?);
        needed.documents.extend(digests(dir, &named.documents)?);
        needed.mentioned.extend(digests(dir, &named.mentioned)?);
        known_runs.extend(named.runs);
    }
    needed.mentioned.retain(|digest| !needed.documents.contains(digest));
    match named_runs.iter().find(|run| !known_runs.contains(*run)) {
        Some(run) => Err(RetentionError::UnknownRun(run.clone())),
        None => Ok(needed),
    }
}

/// What a state names.
#[derive(Default)]
struct Named {
    runs: Vec<String>,
    keys: Vec<String>,
    documents: Vec<String>,
    mentioned: Vec<String>,
}

fn named_in(state: &State, newest_of_each_plan: usize, named_runs: &[String]) -> Result<Named, StateError> {
    let mut named = Named { runs: state.newest_runs(newest_of_each_plan)?, ..Named::default() };
    for run in named_runs {
        if state.has_run(run)? {
            named.runs.push(run.clone());
        }
    }
    for run in &named.runs {
        let by_run = state.named_by(run)?;
        named.keys.extend(by_run.keys);
        named.documents.extend(by_run.evidence);
    }
    let subjects = state.subjects()?;
    named.documents.extend(subjects.into_iter().flat_map(|subject| subject.evidence).map(|link| link.digest));
    named.mentioned = state.all_evidence()?;
    Ok(named)
}

fn digests(dir: &Path, texts: &[String]) -> Result<Vec<Digest>, RetentionError> {
    let no_digest = |text: &String| RetentionError::NoDigest { project: dir.to_owned(), text: text.clone() };
    texts.iter().map(|text| text.parse().map_err(|_| no_digest(text))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project(dir: &Path) -> Project {
        Project { state_dir: dir.to_owned(), exists: dir.exists() }
    }

    #[test]
    fn a_state_that_cannot_be_read_is_an_error_and_a_project_that_is_gone_keeps_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let gone = project(&dir.path().join("gone"));
        assert_eq!(needed(&[gone, project(dir.path())], 3, &[]).unwrap(), Needed::default());
        std::fs::write(dir.path().join("state.db"), "this is no database, and long enough to be one")
            .unwrap();
        let text = needed(&[project(dir.path())], 3, &[]).unwrap_err().to_string();
        assert!(text.starts_with("nothing was removed") && text.contains("not a database"), "{text}");
    }

    #[test]
    fn a_run_that_no_project_has_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        State::open(dir.path()).unwrap().begin_run("r1", "p", "1").unwrap();
        let of = |run: &str| needed(&[project(dir.path())], 0, &[run.to_owned()]);
        of("r1").unwrap();
        let text = of("r2").unwrap_err().to_string();
        assert!(text.contains("no project of this store has a run r2"), "{text}");
    }
}
