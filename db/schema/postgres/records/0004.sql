-- As schema/sqlite/records/0006.sql: who measured a record, where, and how far it is believed here.

ALTER TABLE record ADD COLUMN signer TEXT;
ALTER TABLE record ADD COLUMN board TEXT;
ALTER TABLE record ADD COLUMN fences TEXT;
ALTER TABLE record ADD COLUMN origin TEXT NOT NULL DEFAULT 'before signatures';
ALTER TABLE record ADD COLUMN standing BIGINT NOT NULL DEFAULT 2;
ALTER TABLE record ADD COLUMN signature BYTEA;
ALTER TABLE job ADD COLUMN origin TEXT;

CREATE TABLE signer (
    id           TEXT NOT NULL PRIMARY KEY,
    name         TEXT,
    trust        TEXT NOT NULL CHECK (trust IN ('own', 'tracker', 'person', 'refused')),
    said_wall_ns BIGINT NOT NULL,
    rowid        BIGINT GENERATED ALWAYS AS IDENTITY UNIQUE
);

CREATE TABLE tombstone (
    trial_id     TEXT NOT NULL,
    attempt      BIGINT NOT NULL,
    signer       TEXT NOT NULL,
    state        TEXT NOT NULL CHECK (state IN ('forgotten', 'quarantined', 'restored')),
    reason       TEXT,
    said_by      TEXT,
    said_wall_ns BIGINT NOT NULL,
    signature    BYTEA,
    rowid        BIGINT GENERATED ALWAYS AS IDENTITY UNIQUE,
    PRIMARY KEY (trial_id, attempt, signer)
);

DROP INDEX record_best;
CREATE INDEX record_best ON record (task_key, target, final DESC, median_ns, rowid)
    WHERE outcome = 'ok' AND checked = 1 AND raced = 0 AND standing > 0;
DROP INDEX record_final;
CREATE INDEX record_final ON record (task_key, target, codegen_version, trace_hash) WHERE final = 1 AND standing > 0;

DROP TRIGGER record_stays ON record;
CREATE TRIGGER record_stays BEFORE TRUNCATE ON record EXECUTE FUNCTION record_stays();
CREATE TRIGGER record_is_not_changed
BEFORE UPDATE OF trial_id, attempt, job_id, task_key, target, device_id, fingerprint_id, trial_index, trace, trace_hash,
    codegen_version, artefact_kind, artefact_digest, algorithm, threads, layout_in, layout_out, searcher, outcome,
    blame, detail, checked, error, max_abs_error, samples_ns, runs_per_sample, stop_reason, cache_state, throttled,
    median_ns, min_ns, flops, peak_flops, build_ns, project, "user", stored_wall_ns, raced, final, gain_low, drift,
    search_ns, train_ns, board_ns, drift_memory, again, signer, board, fences, origin, signature
ON record FOR EACH ROW WHEN (NEW.standing <= OLD.standing) EXECUTE FUNCTION record_stays();
CREATE TRIGGER record_is_not_removed BEFORE DELETE ON record FOR EACH ROW WHEN (OLD.standing >= 0)
    EXECUTE FUNCTION record_stays();

ALTER TABLE record_stat ADD COLUMN origin TEXT NOT NULL DEFAULT 'before signatures';
ALTER TABLE record_stat DROP CONSTRAINT record_stat_pkey;
ALTER TABLE record_stat ADD PRIMARY KEY (task_key, target, outcome, raced, final, origin);

CREATE OR REPLACE FUNCTION record_is_counted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO record_stat AS stat
            (task_key, target, outcome, raced, final, origin, record_count, sampled_ns, first_wall_ns, last_wall_ns,
             first_row)
            VALUES (NEW.task_key, NEW.target, NEW.outcome, NEW.raced, NEW.final, NEW.origin, 1,
                    coalesce(NEW.median_ns * (length(NEW.samples_ns) / 8), 0.0), NEW.stored_wall_ns,
                    NEW.stored_wall_ns, NEW.rowid)
            ON CONFLICT (task_key, target, outcome, raced, final, origin) DO UPDATE SET
                record_count = stat.record_count + 1,
                sampled_ns = stat.sampled_ns + excluded.sampled_ns,
                first_wall_ns = least(stat.first_wall_ns, excluded.first_wall_ns),
                last_wall_ns = greatest(stat.last_wall_ns, excluded.last_wall_ns);
    END IF;
    IF TG_OP <> 'INSERT' THEN
        UPDATE record_stat
            SET record_count = record_count - 1,
                sampled_ns = sampled_ns - coalesce(OLD.median_ns * (length(OLD.samples_ns) / 8), 0.0)
            WHERE task_key = OLD.task_key AND target = OLD.target AND outcome = OLD.outcome AND raced = OLD.raced
                AND final = OLD.final AND origin = OLD.origin;
        DELETE FROM record_stat
            WHERE task_key = OLD.task_key AND target = OLD.target AND record_count = 0;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER record_is_counted_anew AFTER UPDATE OF trace ON record FOR EACH ROW EXECUTE FUNCTION record_is_counted();
CREATE TRIGGER record_is_uncounted AFTER DELETE ON record FOR EACH ROW EXECUTE FUNCTION record_is_counted();
