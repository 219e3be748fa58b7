-- Who measured a record, where, and how far it is believed here: docs/decisions/0020-who-measured-it.md.
-- Nothing is copied: new columns have defaults, and two partial indexes are built anew.

ALTER TABLE record ADD COLUMN signer TEXT;
ALTER TABLE record ADD COLUMN board TEXT;
ALTER TABLE record ADD COLUMN fences TEXT;
ALTER TABLE record ADD COLUMN origin TEXT NOT NULL DEFAULT 'before signatures';
-- 2: measured here, 1: its signer is trusted, 0: a hint, -1: quarantined.
ALTER TABLE record ADD COLUMN standing INTEGER NOT NULL DEFAULT 2;
ALTER TABLE record ADD COLUMN signature BLOB;

-- 'imported': of another database; empty: ours.
ALTER TABLE job ADD COLUMN origin TEXT;

CREATE TABLE signer (
    id           TEXT NOT NULL PRIMARY KEY,
    name         TEXT,
    trust        TEXT NOT NULL CHECK (trust IN ('own', 'tracker', 'person', 'refused')),
    said_wall_ns INTEGER NOT NULL
) STRICT;

CREATE TABLE tombstone (
    trial_id     TEXT NOT NULL,
    attempt      INTEGER NOT NULL,
    signer       TEXT NOT NULL,
    state        TEXT NOT NULL CHECK (state IN ('forgotten', 'quarantined', 'restored')),
    reason       TEXT,
    said_by      TEXT,
    said_wall_ns INTEGER NOT NULL,
    signature    BLOB,
    PRIMARY KEY (trial_id, attempt, signer)
) STRICT;

-- Only what counts may be best, or supersede another.
DROP INDEX record_best;
CREATE INDEX record_best ON record (task_key, target, final DESC, median_ns)
    WHERE outcome = 'ok' AND checked = 1 AND raced = 0 AND standing > 0;
DROP INDEX record_final;
CREATE INDEX record_final ON record (task_key, target, codegen_version, trace_hash) WHERE final = 1 AND standing > 0;

-- A record is append-only but for its standing, and for one that gives its identity up to one that stands higher.
-- What counts is not removed before it was forgotten.
DROP TRIGGER record_is_not_changed;
DROP TRIGGER record_is_not_removed;
CREATE TRIGGER record_is_not_changed
BEFORE UPDATE OF trial_id, attempt, job_id, task_key, target, device_id, fingerprint_id, trial_index, trace, trace_hash,
    codegen_version, artefact_kind, artefact_digest, algorithm, threads, layout_in, layout_out, searcher, outcome,
    blame, detail, checked, error, max_abs_error, samples_ns, runs_per_sample, stop_reason, cache_state, throttled,
    median_ns, min_ns, flops, peak_flops, build_ns, project, user, stored_wall_ns, raced, final, gain_low, drift,
    search_ns, train_ns, board_ns, drift_memory, again, signer, board, fences, origin, signature
ON record WHEN NEW.standing <= OLD.standing
BEGIN SELECT RAISE(ABORT, 'records are append-only'); END;
CREATE TRIGGER record_is_not_removed BEFORE DELETE ON record WHEN OLD.standing >= 0
BEGIN SELECT RAISE(ABORT, 'records are append-only'); END;

-- Counts by origin, too. A row whose last record has gone goes with it.
DROP TRIGGER record_is_counted;
ALTER TABLE record_stat RENAME TO record_stat_before;
CREATE TABLE record_stat (
    task_key      TEXT NOT NULL REFERENCES task (key),
    target        TEXT NOT NULL REFERENCES target (target),
    outcome       TEXT NOT NULL,
    raced         INTEGER NOT NULL,
    final         INTEGER NOT NULL,
    origin        TEXT NOT NULL,
    record_count  INTEGER NOT NULL,
    sampled_ns    REAL NOT NULL,
    first_wall_ns INTEGER NOT NULL,
    last_wall_ns  INTEGER NOT NULL,
    first_row     INTEGER NOT NULL,
    PRIMARY KEY (task_key, target, outcome, raced, final, origin)
) STRICT, WITHOUT ROWID;
INSERT INTO record_stat
    SELECT task_key, target, outcome, raced, final, 'before signatures', record_count, sampled_ns, first_wall_ns,
           last_wall_ns, first_row
    FROM record_stat_before;
DROP TABLE record_stat_before;

CREATE TRIGGER record_is_counted AFTER INSERT ON record
BEGIN
    INSERT INTO record_stat
        VALUES (NEW.task_key, NEW.target, NEW.outcome, NEW.raced, NEW.final, NEW.origin, 1,
                coalesce(NEW.median_ns * length(NEW.samples_ns) / 8, 0.0), NEW.stored_wall_ns, NEW.stored_wall_ns,
                NEW.rowid)
        ON CONFLICT DO UPDATE SET
            record_count = record_count + 1,
            sampled_ns = sampled_ns + excluded.sampled_ns,
            first_wall_ns = min(first_wall_ns, excluded.first_wall_ns),
            last_wall_ns = max(last_wall_ns, excluded.last_wall_ns);
END;

CREATE TRIGGER record_is_uncounted AFTER DELETE ON record
BEGIN
    UPDATE record_stat
        SET record_count = record_count - 1,
            sampled_ns = sampled_ns - coalesce(OLD.median_ns * length(OLD.samples_ns) / 8, 0.0)
        WHERE task_key = OLD.task_key AND target = OLD.target AND outcome = OLD.outcome AND raced = OLD.raced
            AND final = OLD.final AND origin = OLD.origin;
    DELETE FROM record_stat
        WHERE task_key = OLD.task_key AND target = OLD.target AND record_count = 0;
END;

CREATE TRIGGER record_is_counted_anew AFTER UPDATE OF trace ON record
BEGIN
    INSERT INTO record_stat
        VALUES (NEW.task_key, NEW.target, NEW.outcome, NEW.raced, NEW.final, NEW.origin, 1,
                coalesce(NEW.median_ns * length(NEW.samples_ns) / 8, 0.0), NEW.stored_wall_ns, NEW.stored_wall_ns,
                NEW.rowid)
        ON CONFLICT DO UPDATE SET
            record_count = record_count + 1,
            sampled_ns = sampled_ns + excluded.sampled_ns,
            first_wall_ns = min(first_wall_ns, excluded.first_wall_ns),
            last_wall_ns = max(last_wall_ns, excluded.last_wall_ns);
    UPDATE record_stat
        SET record_count = record_count - 1,
            sampled_ns = sampled_ns - coalesce(OLD.median_ns * length(OLD.samples_ns) / 8, 0.0)
        WHERE task_key = OLD.task_key AND target = OLD.target AND outcome = OLD.outcome AND raced = OLD.raced
            AND final = OLD.final AND origin = OLD.origin;
    DELETE FROM record_stat
        WHERE task_key = OLD.task_key AND target = OLD.target AND record_count = 0;
END;
