-- Where the time of a trial went, beside build_ns: for the accounts of `kiln db plot`.

-- Proposing it: the searcher's own work.
ALTER TABLE record ADD COLUMN search_ns REAL NOT NULL DEFAULT 0 CHECK (search_ns >= 0);
-- Training the cost model for this proposal.
ALTER TABLE record ADD COLUMN train_ns REAL NOT NULL DEFAULT 0 CHECK (train_ns >= 0);
-- On the board: fetching, loading, warming up, sampling and checking.
ALTER TABLE record ADD COLUMN board_ns REAL NOT NULL DEFAULT 0 CHECK (board_ns >= 0);
