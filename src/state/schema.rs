//! The database's tables, by version.

use rusqlite::Connection;

use super::StateError;

/// Each entry brings the database from its index to the next version.
const MIGRATIONS: [&str; 1] = ["
    CREATE TABLE runs (
        id TEXT PRIMARY KEY,
        plan TEXT NOT NULL,
        started_at TEXT NOT NULL,
        ended_at TEXT,
        exit_code INTEGER
    );
    CREATE TABLE node_records (
        run TEXT NOT NULL REFERENCES runs (id),
        node TEXT NOT NULL,
        attempt INTEGER NOT NULL,
        kind TEXT NOT NULL,
        outcome TEXT NOT NULL,
        reason TEXT,
        key TEXT,
        evidence TEXT,
        started_at TEXT NOT NULL,
        took_ms INTEGER NOT NULL,
        UNIQUE (run, node, attempt)
    );
    CREATE TABLE subjects (
        subject TEXT PRIMARY KEY,
        plan TEXT NOT NULL,
        target TEXT NOT NULL,
        mode TEXT NOT NULL,
        status TEXT NOT NULL,
        since TEXT NOT NULL,
        run TEXT NOT NULL,
        evidence TEXT NOT NULL,
        missing TEXT NOT NULL
    );
    CREATE TABLE transitions (
        subject TEXT NOT NULL,
        from_status TEXT,
        to_status TEXT NOT NULL,
        at TEXT NOT NULL,
        run TEXT NOT NULL,
        reason TEXT NOT NULL
    );
"];

/// Whether a database that may not be changed has the newest tables.
pub(super) fn is_current(connection: &Connection) -> Result<bool, StateError> {
    let (found, known) = version(connection)?;
    Ok(found == known)
}

/// The version of a database, and the newest one.
fn version(connection: &Connection) -> Result<(i64, i64), StateError> {
    let found: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    if found > known { Err(StateError::Newer { found, known }) } else { Ok((found, known)) }
}

/// Brings a database to the newest version, one transaction a step.
pub(super) fn migrate(connection: &mut Connection) -> Result<(), StateError> {
    let (found, _) = version(connection)?;
    for (version, statements) in (1_i64..).zip(MIGRATIONS).filter(|(version, _)| *version > found) {
        let transaction = connection.transaction()?;
        transaction.execute_batch(statements)?;
        transaction.pragma_update(None, "user_version", version)?;
        transaction.commit()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_database_is_refused_and_untouched() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.pragma_update(None, "user_version", 99).unwrap();
        let error = migrate(&mut connection).unwrap_err();
        assert!(matches!(error, StateError::Newer { found: 99, .. }), "{error}");
    }
}
