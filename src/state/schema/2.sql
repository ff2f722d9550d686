-- A transition names a run that is known, and the evidence that moved its subject.
INSERT INTO runs (id, plan, started_at, ended_at)
SELECT run, COALESCE((SELECT plan FROM subjects WHERE subjects.subject = transitions.subject), ''), MIN(at), MAX(at)
FROM transitions
WHERE run NOT IN (SELECT id FROM runs)
GROUP BY run;

ALTER TABLE transitions RENAME TO transitions_1;
CREATE TABLE transitions (
    subject TEXT NOT NULL,
    from_status TEXT,
    to_status TEXT NOT NULL,
    at TEXT NOT NULL,
    run TEXT NOT NULL REFERENCES runs (id),
    reason TEXT NOT NULL,
    evidence TEXT
);
INSERT INTO transitions (rowid, subject, from_status, to_status, at, run, reason)
SELECT rowid, subject, from_status, to_status, at, run, reason FROM transitions_1;
DROP TABLE transitions_1;

-- The processes that a run holds, told apart for ever by boot, number and start.
CREATE TABLE leases (
    run TEXT NOT NULL REFERENCES runs (id),
    node TEXT NOT NULL,
    pid INTEGER NOT NULL,
    start_time INTEGER NOT NULL,
    boot TEXT NOT NULL,
    what TEXT NOT NULL CHECK (what IN ('orchestrator', 'supervisor', 'program')),
    since TEXT NOT NULL,
    UNIQUE (boot, pid, start_time)
);

-- What is asked often: unfinished runs, runs of a plan, the last results of a node. Records
-- of a run are found by the UNIQUE of their table.
CREATE INDEX unfinished_runs ON runs (id) WHERE ended_at IS NULL;
CREATE INDEX runs_of_plan ON runs (plan);
CREATE INDEX results_of_node ON node_records (node, outcome);
