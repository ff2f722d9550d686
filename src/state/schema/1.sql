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
