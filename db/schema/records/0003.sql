-- Where the time of a trial went, beside build_ns: for the accounts of `kiln db plot`.

-- Proposing it: the searcher's own work, waiting for a model included.
ALTER TABLE record ADD COLUMN search_ns REAL NOT NULL DEFAULT 0 CHECK (search_ns >= 0);
-- Training the cost model since the proposal before it of the same task; beside the main path, so it overlaps.
ALTER TABLE record ADD COLUMN train_ns REAL NOT NULL DEFAULT 0 CHECK (train_ns >= 0);
-- On the board: fetching, loading, warming up, sampling and checking.
ALTER TABLE record ADD COLUMN board_ns REAL NOT NULL DEFAULT 0 CHECK (board_ns >= 0);
