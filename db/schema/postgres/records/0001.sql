-- Measurement records and what they speak of: what schema/sqlite/records/ has arrived at. Never edited after release:
-- a change is a new number. Empty text is stored as NULL, so NOT NULL also means "not empty". rowid numbers the rows
-- in order of insertion; nothing outside refers to it.

CREATE TABLE task (
    key       TEXT NOT NULL PRIMARY KEY,
    op        TEXT NOT NULL,
    canonical TEXT,
    flops     DOUBLE PRECISION NOT NULL CHECK (flops >= 0),
    rowid     BIGINT GENERATED ALWAYS AS IDENTITY UNIQUE
);

CREATE TABLE target (
    target TEXT NOT NULL PRIMARY KEY,
    rowid  BIGINT GENERATED ALWAYS AS IDENTITY UNIQUE
);

CREATE TABLE device (
    id     TEXT NOT NULL PRIMARY KEY,
    name   TEXT,
    target TEXT,
    labels TEXT,
    rowid  BIGINT GENERATED ALWAYS AS IDENTITY UNIQUE
);

CREATE TABLE fingerprint (
    id        TEXT NOT NULL PRIMARY KEY,
    device_id TEXT NOT NULL REFERENCES device (id),
    content   TEXT,
    rowid     BIGINT GENERATED ALWAYS AS IDENTITY UNIQUE
);

CREATE TABLE job (
    id             TEXT NOT NULL PRIMARY KEY,
    model          TEXT,
    model_digest   TEXT,
    target         TEXT NOT NULL REFERENCES target (target),
    searcher       TEXT,
    trials_max     BIGINT NOT NULL CHECK (trials_max >= 0),
    seed           BIGINT NOT NULL,
    project        TEXT,
    "user"         TEXT,
    state          TEXT NOT NULL,
    opened_wall_ns BIGINT NOT NULL,
    rowid          BIGINT GENERATED ALWAYS AS IDENTITY UNIQUE
);

CREATE TABLE record (
    trial_id        TEXT NOT NULL,
    attempt         BIGINT NOT NULL CHECK (attempt >= 1),
    job_id          TEXT NOT NULL REFERENCES job (id),
    task_key        TEXT NOT NULL REFERENCES task (key),
    target          TEXT NOT NULL REFERENCES target (target),
    device_id       TEXT REFERENCES device (id),
    fingerprint_id  TEXT REFERENCES fingerprint (id),
    trial_index     BIGINT NOT NULL CHECK (trial_index >= 0),
    trace           BYTEA NOT NULL,
    trace_hash      TEXT NOT NULL,
    codegen_version TEXT NOT NULL,
    artefact_kind   TEXT,
    artefact_digest TEXT,
    algorithm       TEXT,
    threads         BIGINT NOT NULL CHECK (threads >= 1),
    layout_in       TEXT,
    layout_out      TEXT,
    searcher        TEXT,
    outcome         TEXT NOT NULL CHECK (outcome IN ('ok', 'build_error', 'link_error', 'wrong_result',
                                                     'timeout', 'crash', 'board_lost', 'infra')),
    blame           TEXT NOT NULL CHECK (blame IN ('none', 'candidate', 'board', 'infra', 'client')),
    detail          TEXT,
    checked         BIGINT NOT NULL CHECK (checked IN (0, 1)),
    error           DOUBLE PRECISION NOT NULL,
    max_abs_error   DOUBLE PRECISION NOT NULL,
    samples_ns      BYTEA,
    runs_per_sample BIGINT NOT NULL CHECK (runs_per_sample >= 0),
    stop_reason     TEXT,
    cache_state     TEXT,
    throttled       BIGINT NOT NULL CHECK (throttled IN (0, 1)),
    median_ns       DOUBLE PRECISION NOT NULL CHECK (median_ns >= 0),
    min_ns          DOUBLE PRECISION NOT NULL CHECK (min_ns >= 0),
    flops           DOUBLE PRECISION NOT NULL CHECK (flops >= 0),
    peak_flops      DOUBLE PRECISION NOT NULL CHECK (peak_flops >= 0),
    build_ns        DOUBLE PRECISION NOT NULL CHECK (build_ns >= 0),
    project         TEXT,
    "user"          TEXT,
    stored_wall_ns  BIGINT NOT NULL,
    raced           BIGINT NOT NULL CHECK (raced IN (0, 1)),
    final           BIGINT NOT NULL CHECK (final IN (0, 1)),
    gain_low        DOUBLE PRECISION NOT NULL CHECK (gain_low >= 0),
    drift           DOUBLE PRECISION NOT NULL CHECK (drift >= 0),
    search_ns       DOUBLE PRECISION NOT NULL CHECK (search_ns >= 0),
    train_ns        DOUBLE PRECISION NOT NULL CHECK (train_ns >= 0),
    board_ns        DOUBLE PRECISION NOT NULL CHECK (board_ns >= 0),
    rowid           BIGINT GENERATED ALWAYS AS IDENTITY UNIQUE,
    PRIMARY KEY (trial_id, attempt),
    CHECK (outcome <> 'ok' OR median_ns > 0)
);

CREATE INDEX record_best ON record (task_key, target, final DESC, median_ns, rowid)
    WHERE outcome = 'ok' AND checked = 1 AND raced = 0;
CREATE INDEX record_task ON record (task_key, target, rowid);
CREATE INDEX record_final ON record (task_key, target, codegen_version, trace_hash) WHERE final = 1;
CREATE INDEX record_job ON record (job_id);

-- Records are append-only, so their counts only grow, with each insert. One group writes at a time (the writer's
-- place), so nobody waits for these rows.
CREATE TABLE record_stat (
    task_key      TEXT NOT NULL REFERENCES task (key),
    target        TEXT NOT NULL REFERENCES target (target),
    outcome       TEXT NOT NULL,
    raced         BIGINT NOT NULL,
    final         BIGINT NOT NULL,
    record_count  BIGINT NOT NULL,
    sampled_ns    DOUBLE PRECISION NOT NULL,
    first_wall_ns BIGINT NOT NULL,
    last_wall_ns  BIGINT NOT NULL,
    first_row     BIGINT NOT NULL,
    PRIMARY KEY (task_key, target, outcome, raced, final)
);

CREATE FUNCTION record_is_counted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO record_stat AS stat
        VALUES (NEW.task_key, NEW.target, NEW.outcome, NEW.raced, NEW.final, 1,
                coalesce(NEW.median_ns * (length(NEW.samples_ns) / 8), 0.0), NEW.stored_wall_ns, NEW.stored_wall_ns,
                NEW.rowid)
        ON CONFLICT (task_key, target, outcome, raced, final) DO UPDATE SET
            record_count = stat.record_count + 1,
            sampled_ns = stat.sampled_ns + excluded.sampled_ns,
            first_wall_ns = least(stat.first_wall_ns, excluded.first_wall_ns),
            last_wall_ns = greatest(stat.last_wall_ns, excluded.last_wall_ns);
    RETURN NULL;
END $$;
CREATE TRIGGER record_is_counted AFTER INSERT ON record FOR EACH ROW EXECUTE FUNCTION record_is_counted();

CREATE FUNCTION record_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'records are append-only'; END $$;
CREATE TRIGGER record_stays BEFORE UPDATE OR DELETE OR TRUNCATE ON record EXECUTE FUNCTION record_stays();
