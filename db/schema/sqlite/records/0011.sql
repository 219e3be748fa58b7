-- Counts by project, too: a person may see the records of some projects only. '' stands for none.

DROP TRIGGER record_is_counted;
DROP TRIGGER record_is_uncounted;
DROP TABLE record_stat;
CREATE TABLE record_stat (
    task_key      TEXT NOT NULL REFERENCES task (key),
    target        TEXT NOT NULL REFERENCES target (target),
    outcome       TEXT NOT NULL,
    raced         INTEGER NOT NULL,
    final         INTEGER NOT NULL,
    origin        TEXT NOT NULL,
    project       TEXT NOT NULL,
    record_count  INTEGER NOT NULL,
    sampled_ns    REAL NOT NULL,
    first_wall_ns INTEGER NOT NULL,
    last_wall_ns  INTEGER NOT NULL,
    first_row     INTEGER NOT NULL,
    PRIMARY KEY (task_key, target, outcome, raced, final, origin, project)
) STRICT, WITHOUT ROWID;
INSERT INTO record_stat
    SELECT task_key, target, outcome, raced, final, origin, coalesce(project, ''), count(*),
           sum(coalesce(median_ns * length(samples_ns) / 8, 0.0)), min(stored_wall_ns), max(stored_wall_ns), min(rowid)
    FROM record GROUP BY 1, 2, 3, 4, 5, 6, 7;

CREATE TRIGGER record_is_counted AFTER INSERT ON record
BEGIN
    INSERT INTO record_stat
        VALUES (NEW.task_key, NEW.target, NEW.outcome, NEW.raced, NEW.final, NEW.origin, coalesce(NEW.project, ''), 1,
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
            AND final = OLD.final AND origin = OLD.origin AND project = coalesce(OLD.project, '');
    DELETE FROM record_stat
        WHERE task_key = OLD.task_key AND target = OLD.target AND record_count = 0;
END;
