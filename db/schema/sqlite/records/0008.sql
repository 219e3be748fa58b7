-- A record gives its identity up by being removed, so that the triggers that count know two events instead of three.
-- Every opening reads all triggers: that is why they are short.

DROP TRIGGER record_is_counted_anew;
CREATE TRIGGER record_gives_way BEFORE INSERT ON record
WHEN EXISTS (SELECT 1 FROM record
             WHERE trial_id = NEW.trial_id AND attempt = NEW.attempt AND standing < NEW.standing)
BEGIN
    UPDATE record SET standing = -1 WHERE trial_id = NEW.trial_id AND attempt = NEW.attempt;
    DELETE FROM record WHERE trial_id = NEW.trial_id AND attempt = NEW.attempt;
END;

-- A record is append-only but for its standing.
DROP TRIGGER record_is_not_changed;
CREATE TRIGGER record_is_not_changed
BEFORE UPDATE OF trial_id, attempt, job_id, task_key, target, device_id, fingerprint_id, trial_index, trace, trace_hash,
    codegen_version, artefact_kind, artefact_digest, algorithm, threads, layout_in, layout_out, searcher, outcome,
    blame, detail, checked, error, max_abs_error, samples_ns, runs_per_sample, stop_reason, cache_state, throttled,
    median_ns, min_ns, flops, peak_flops, build_ns, project, user, stored_wall_ns, raced, final, gain_low, drift,
    search_ns, train_ns, board_ns, drift_memory, again, signer, board, fences, origin, signature
ON record BEGIN SELECT RAISE(ABORT, 'records are append-only'); END;
