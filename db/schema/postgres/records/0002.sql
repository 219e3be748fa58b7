-- As schema/sqlite/records/0005.sql: the memory part of the drift, and samples that were taken again.

ALTER TABLE record ADD COLUMN drift_memory DOUBLE PRECISION NOT NULL DEFAULT 0 CHECK (drift_memory >= 0);
ALTER TABLE record ADD COLUMN again BIGINT NOT NULL DEFAULT 0 CHECK (again >= 0);
