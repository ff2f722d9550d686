//! The database's tables, by version.

use rusqlite::{Connection, TransactionBehavior};

use super::StateError;

/// Each entry brings the database from its index to the next version.
const MIGRATIONS: [&str; 2] = [include_str!("schema/1.sql"), include_str!("schema/2.sql")];

/// How the tables of a database compare with the newest ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Age {
    /// It has no tables of ours at all.
    Unborn,
    /// An earlier version made them.
    Old,
    /// They are the newest.
    Current,
}

/// The age of a database; a newer one is an error.
pub(super) fn age(connection: &Connection) -> Result<Age, StateError> {
    Ok(match version(connection)? {
        (0, _) => Age::Unborn,
        (found, known) if found < known => Age::Old,
        _ => Age::Current,
    })
}

/// The version of a database, and the newest one.
fn version(connection: &Connection) -> Result<(i64, i64), StateError> {
    let found: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    if found > known { Err(StateError::Newer { found, known }) } else { Ok((found, known)) }
}

/// Brings a database to the newest version, in one transaction.
pub(super) fn migrate(connection: &mut Connection) -> Result<(), StateError> {
    if age(connection)? == Age::Current {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let (found, known) = version(&transaction)?;
    for statements in MIGRATIONS.iter().skip(usize::try_from(found).unwrap_or(0)) {
        transaction.execute_batch(statements)?;
    }
    transaction.pragma_update(None, "user_version", known)?;
    Ok(transaction.commit()?)
}

/// A database as version 1 left it, with two runs, a record and a climb of a
/// subject, one step of it by a run that is not recorded.
#[cfg(test)]
pub(super) fn write_version_1(path: &std::path::Path) {
    let connection = Connection::open(path).unwrap();
    connection.pragma_update(None, "journal_mode", "WAL").unwrap();
    connection.execute_batch(MIGRATIONS[0]).unwrap();
    connection.pragma_update(None, "user_version", 1).unwrap();
    let rows = "
        INSERT INTO runs VALUES ('r1', 'p', '1', '2', 0), ('r2', 'p', '3', NULL, NULL);
        INSERT INTO node_records VALUES ('r1', 'n', 1, 'fetch', 'succeeded', NULL, 'k', 'e', '1', 5);
        INSERT INTO subjects VALUES ('s', 'p', 't', 'ordinary', 'implemented', '2', 'r1', '[]', '[]');
        INSERT INTO transitions VALUES ('s', NULL, 'planned', '0', 'r0', 'first'),
                                       ('s', 'planned', 'implemented', '2', 'r1', 'then');";
    connection.execute_batch(rows).unwrap();
}

#[cfg(test)]
mod tests {
    use super::super::{FILE, LastResult, State};
    use super::*;

    #[test]
    fn a_newer_database_is_refused_and_untouched() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.pragma_update(None, "user_version", 99).unwrap();
        let error = migrate(&mut connection).unwrap_err();
        assert!(matches!(error, StateError::Newer { found: 99, .. }), "{error}");
    }

    /// What is read of the database of `write_version_1`.
    fn assert_all_is_there(state: &State) {
        let unfinished: Vec<_> = state.unfinished_runs().unwrap().into_iter().map(|run| run.id).collect();
        assert_eq!(unfinished, ["r2"]);
        assert_eq!(state.node_records("r1").unwrap()[0].key.as_deref(), Some("k"));
        let last = LastResult {
            key: Some("k".to_owned()),
            at: "1".to_owned(),
            took_ms: Some(5),
            retried: None,
            said: None,
        };
        assert_eq!(state.last_results("p").unwrap()["n"], last);
        assert_eq!(state.subjects().unwrap()[0].status, "implemented");
        let moves: Vec<_> =
            state.transitions().unwrap().into_iter().map(|t| (t.run, t.to, t.evidence)).collect();
        assert_eq!(moves, [("r0".into(), "planned".into(), None), ("r1".into(), "implemented".into(), None)]);
        assert_eq!(state.leases().unwrap(), []);
    }

    #[test]
    fn a_database_of_version_1_is_migrated_in_place_and_loses_nothing() {
        let dir = tempfile::tempdir().unwrap();
        write_version_1(&dir.path().join(FILE));
        let state = State::open(dir.path()).unwrap();
        assert_all_is_there(&state);
        let broken: i64 = state
            .ask(
                |db| Ok(db.query_row("SELECT COUNT(*) FROM pragma_foreign_key_check", [], |row| row.get(0))?),
            )
            .unwrap();
        assert_eq!(broken, 0);
        drop(state);
        assert_all_is_there(&State::open_existing(dir.path()).unwrap().unwrap());
    }

    #[test]
    fn a_reader_understands_version_1_and_leaves_it_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        write_version_1(&path);
        let before = std::fs::read(&path).unwrap();
        assert_all_is_there(&State::open_existing(dir.path()).unwrap().unwrap());
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }

    #[test]
    fn a_migration_that_fails_leaves_the_old_version_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        write_version_1(&path);
        // The last statement of the migration finds its name taken.
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch("CREATE TABLE results_of_node (x)").unwrap();
        drop(connection);
        State::open(dir.path()).unwrap_err();
        let connection = Connection::open(&path).unwrap();
        assert_eq!(version(&connection).unwrap().0, 1);
        connection.execute_batch("DROP TABLE results_of_node").unwrap();
        drop(connection);
        assert_all_is_there(&State::open(dir.path()).unwrap());
    }
}
