-- Measurement records and what they speak of. Never edited after release: a change is a new number.
-- Empty text is stored as NULL, so NOT NULL also means "not empty". Identities are text, never row numbers.

CREATE TABLE task (
    key       TEXT NOT NULL PRIMARY KEY,
    op        TEXT NOT NULL,
    canonical TEXT,
    flops     REAL NOT NULL CHECK (flops >= 0)
) STRICT;

CREATE TABLE target (
    target TEXT NOT NULL PRIMARY KEY
) STRICT;

CREATE TABLE device (
    id     TEXT NOT NULL PRIMARY KEY,
    name   TEXT,
    target TEXT,
    labels TEXT
) STRICT;

CREATE TABLE fingerprint (
    id        TEXT NOT NULL PRIMARY KEY,
    device_id TEXT NOT NULL REFERENCES device (id),
    content   TEXT
) STRICT;

CREATE TABLE job (
    id             TEXT NOT NULL PRIMARY KEY,
    model          TEXT,
    model_digest   TEXT,
    target         TEXT NOT NULL REFERENCES target (target),
    searcher       TEXT,
    trials_max     INTEGER NOT NULL CHECK (trials_max >= 0),
    seed           INTEGER NOT NULL,
    project        TEXT,
    user           TEXT,
    state          TEXT NOT NULL,
    opened_wall_ns INTEGER NOT NULL
) STRICT;

CREATE TABLE record (
    trial_id        TEXT NOT NULL,
    attempt         INTEGER NOT NULL CHECK (attempt >= 1),
    job_id          TEXT NOT NULL REFERENCES job (id),
    task_key        TEXT NOT NULL REFERENCES task (key),
    target          TEXT NOT NULL REFERENCES target (target),
    device_id       TEXT REFERENCES device (id),
    fingerprint_id  TEXT REFERENCES fingerprint (id),
    trial_index     INTEGER NOT NULL CHECK (trial_index >= 0),
    trace           BLOB NOT NULL,
    trace_hash      TEXT NOT NULL,
    codegen_version TEXT NOT NULL,
    artefact_kind   TEXT,
    artefact_digest TEXT,
    algorithm       TEXT,
    threads         INTEGER NOT NULL CHECK (threads >= 1),
    layout_in       TEXT,
    layout_out      TEXT,
    searcher        TEXT,
    outcome         TEXT NOT NULL CHECK (outcome IN ('ok', 'build_error', 'link_error', 'wrong_result',
                                                     'timeout', 'crash', 'board_lost', 'infra')),
    blame           TEXT NOT NULL CHECK (blame IN ('none', 'candidate', 'board', 'infra', 'client')),
    detail          TEXT,
    checked         INTEGER NOT NULL CHECK (checked IN (0, 1)),
    error           REAL NOT NULL,
    max_abs_error   REAL NOT NULL,
    samples_ns      BLOB,
    runs_per_sample INTEGER NOT NULL CHECK (runs_per_sample >= 0),
    stop_reason     TEXT,
    cache_state     TEXT,
    throttled       INTEGER NOT NULL CHECK (throttled IN (0, 1)),
    median_ns       REAL NOT NULL CHECK (median_ns >= 0),
    min_ns          REAL NOT NULL CHECK (min_ns >= 0),
    flops           REAL NOT NULL CHECK (flops >= 0),
    peak_flops      REAL NOT NULL CHECK (peak_flops >= 0),
    build_ns        REAL NOT NULL CHECK (build_ns >= 0),
    project         TEXT,
    user            TEXT,
    stored_wall_ns  INTEGER NOT NULL,
    PRIMARY KEY (trial_id, attempt),
    CHECK (outcome <> 'ok' OR median_ns > 0)
) STRICT;

-- The two questions that are asked while a search runs: how fast is the best, and is this candidate known.
CREATE INDEX record_best ON record (task_key, target, median_ns) WHERE outcome = 'ok' AND checked = 1;
CREATE INDEX record_known ON record (task_key, target, codegen_version, trace_hash);
CREATE INDEX record_job ON record (job_id);

CREATE TRIGGER record_is_not_changed BEFORE UPDATE ON record
BEGIN SELECT RAISE(ABORT, 'records are append-only'); END;
CREATE TRIGGER record_is_not_removed BEFORE DELETE ON record
BEGIN SELECT RAISE(ABORT, 'records are append-only'); END;
