-- As schema/sqlite/records/0012.sql: the readings of one board over time.

CREATE INDEX record_device ON record (device_id, stored_wall_ns) INCLUDE (project, drift, drift_memory, throttled, standing)
WHERE standing >= 0 AND drift > 0;
