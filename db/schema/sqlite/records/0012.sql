-- The readings of one board over time (web/drift_routes.c), without its records' traces and samples.

CREATE INDEX record_device ON record (device_id, stored_wall_ns, project, drift, drift_memory, throttled, standing)
WHERE standing >= 0 AND drift > 0;
