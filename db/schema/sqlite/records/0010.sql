-- What an assembler made of the artefact (base/assembled.h). Of records of before nobody knows: 0 registers.

ALTER TABLE record ADD COLUMN registers INTEGER NOT NULL DEFAULT 0;
ALTER TABLE record ADD COLUMN spill_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE record ADD COLUMN stack_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE record ADD COLUMN shared_bytes INTEGER NOT NULL DEFAULT 0;

DROP TRIGGER record_is_not_changed;
CREATE TRIGGER record_is_not_changed
BEFORE UPDATE OF trial_id, attempt, job_id, task_key, target, device_id, fingerprint_id, trial_index, trace, trace_hash,
    codegen_version, artefact_kind, artefact_digest, algorithm, threads, layout_in, layout_out, searcher, outcome,
    blame, detail, checked, error, max_abs_error, samples_ns, runs_per_sample, stop_reason, cache_state, throttled,
    median_ns, min_ns, flops, peak_flops, build_ns, project, user, stored_wall_ns, raced, final, gain_low, drift,
    search_ns, train_ns, board_ns, drift_memory, again, signer, board, fences, origin, signature, relative_error,
    registers, spill_bytes, stack_bytes, shared_bytes
ON record BEGIN SELECT RAISE(ABORT, 'records are append-only'); END;
