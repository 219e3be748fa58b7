-- As schema/sqlite/records/0011.sql: counts by project, too. Trials of a job are read in order of insertion.

DROP INDEX record_job;
CREATE INDEX record_job ON record (job_id, rowid);

TRUNCATE record_stat;
ALTER TABLE record_stat ADD COLUMN project TEXT NOT NULL;
ALTER TABLE record_stat DROP CONSTRAINT record_stat_pkey;
ALTER TABLE record_stat ADD PRIMARY KEY (task_key, target, outcome, raced, final, origin, project);
INSERT INTO record_stat (task_key, target, outcome, raced, final, origin, project, record_count, sampled_ns, first_wall_ns,
                         last_wall_ns, first_row)
    SELECT task_key, target, outcome, raced, final, origin, coalesce(project, ''), count(*),
           sum(coalesce(median_ns * (length(samples_ns) / 8), 0.0)), min(stored_wall_ns), max(stored_wall_ns), min(rowid)
    FROM record GROUP BY 1, 2, 3, 4, 5, 6, 7;

CREATE OR REPLACE FUNCTION record_is_counted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO record_stat AS stat
            (task_key, target, outcome, raced, final, origin, project, record_count, sampled_ns, first_wall_ns,
             last_wall_ns, first_row)
            VALUES (NEW.task_key, NEW.target, NEW.outcome, NEW.raced, NEW.final, NEW.origin, coalesce(NEW.project, ''),
                    1, coalesce(NEW.median_ns * (length(NEW.samples_ns) / 8), 0.0), NEW.stored_wall_ns,
                    NEW.stored_wall_ns, NEW.rowid)
            ON CONFLICT (task_key, target, outcome, raced, final, origin, project) DO UPDATE SET
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
                AND final = OLD.final AND origin = OLD.origin AND project = coalesce(OLD.project, '');
        DELETE FROM record_stat
            WHERE task_key = OLD.task_key AND target = OLD.target AND record_count = 0;
    END IF;
    RETURN NULL;
END $$;
