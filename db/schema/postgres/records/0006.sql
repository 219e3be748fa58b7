-- As schema/sqlite/records/0008.sql: a record gives its identity up by being removed.

DROP TRIGGER record_is_counted_anew ON record;
CREATE FUNCTION record_gives_way() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE record SET standing = -1
        WHERE trial_id = NEW.trial_id AND attempt = NEW.attempt AND standing < NEW.standing;
    IF FOUND THEN
        DELETE FROM record WHERE trial_id = NEW.trial_id AND attempt = NEW.attempt;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER record_gives_way BEFORE INSERT ON record FOR EACH ROW EXECUTE FUNCTION record_gives_way();

DROP TRIGGER record_is_not_changed ON record;
CREATE TRIGGER record_is_not_changed
BEFORE UPDATE OF trial_id, attempt, job_id, task_key, target, device_id, fingerprint_id, trial_index, trace, trace_hash,
    codegen_version, artefact_kind, artefact_digest, algorithm, threads, layout_in, layout_out, searcher, outcome,
    blame, detail, checked, error, max_abs_error, samples_ns, runs_per_sample, stop_reason, cache_state, throttled,
    median_ns, min_ns, flops, peak_flops, build_ns, project, "user", stored_wall_ns, raced, final, gain_low, drift,
    search_ns, train_ns, board_ns, drift_memory, again, signer, board, fences, origin, signature
ON record EXECUTE FUNCTION record_stays();
