-- Raced-out trials, finals, drift; and counts that need no look at every record.

-- 1: stopped after its first samples because it was clearly slower than its rivals; never the best.
ALTER TABLE record ADD COLUMN raced INTEGER NOT NULL DEFAULT 0 CHECK (raced IN (0, 1));
-- 1: measured anew, in turns with its rivals and the default schedule.
ALTER TABLE record ADD COLUMN final INTEGER NOT NULL DEFAULT 0 CHECK (final IN (0, 1));
ALTER TABLE record ADD COLUMN gain_low REAL NOT NULL DEFAULT 0 CHECK (gain_low >= 0);
ALTER TABLE record ADD COLUMN drift REAL NOT NULL DEFAULT 0 CHECK (drift >= 0);

-- Finals come before what was measured alone.
DROP INDEX record_best;
CREATE INDEX record_best ON record (task_key, target, final DESC, median_ns)
    WHERE outcome = 'ok' AND checked = 1 AND raced = 0;

-- Records are append-only, so their counts only grow, with each insert.
CREATE TABLE record_stat (
    task_key      TEXT NOT NULL REFERENCES task (key),
    target        TEXT NOT NULL REFERENCES target (target),
    outcome       TEXT NOT NULL,
    raced         INTEGER NOT NULL,
    final         INTEGER NOT NULL,
    record_count  INTEGER NOT NULL,
    sampled_ns    REAL NOT NULL,
    first_wall_ns INTEGER NOT NULL,
    last_wall_ns  INTEGER NOT NULL,
    first_row     INTEGER NOT NULL,
    PRIMARY KEY (task_key, target, outcome, raced, final)
) STRICT, WITHOUT ROWID;

INSERT INTO record_stat
    SELECT task_key, target, outcome, raced, final, count(*),
           coalesce(sum(median_ns * length(samples_ns) / 8), 0.0), min(stored_wall_ns), max(stored_wall_ns), min(rowid)
    FROM record GROUP BY task_key, target, outcome, raced, final;

CREATE TRIGGER record_is_counted AFTER INSERT ON record
BEGIN
    INSERT INTO record_stat
        VALUES (NEW.task_key, NEW.target, NEW.outcome, NEW.raced, NEW.final, 1,
                coalesce(NEW.median_ns * length(NEW.samples_ns) / 8, 0.0), NEW.stored_wall_ns, NEW.stored_wall_ns,
                NEW.rowid)
        ON CONFLICT DO UPDATE SET
            record_count = record_count + 1,
            sampled_ns = sampled_ns + excluded.sampled_ns,
            first_wall_ns = min(first_wall_ns, excluded.first_wall_ns),
            last_wall_ns = max(last_wall_ns, excluded.last_wall_ns);
END;
