-- How fast the board was while it measured, by both parts of its reference kernel, and what was taken again for it.

-- The memory part; `drift` is the arithmetic one.
ALTER TABLE record ADD COLUMN drift_memory REAL NOT NULL DEFAULT 0 CHECK (drift_memory >= 0);
ALTER TABLE record ADD COLUMN again INTEGER NOT NULL DEFAULT 0 CHECK (again >= 0);
