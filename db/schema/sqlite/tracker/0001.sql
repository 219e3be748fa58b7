-- What a tracker must not forget when it is killed. Never edited after release: a change is a new number.

CREATE TABLE tracker_job (
    id    TEXT NOT NULL PRIMARY KEY,
    state TEXT NOT NULL,
    body  BLOB NOT NULL
) STRICT;

CREATE TABLE tracker_lease (
    id     TEXT NOT NULL PRIMARY KEY,
    board  TEXT NOT NULL,
    tuner  TEXT NOT NULL,
    job    TEXT,
    epoch  INTEGER NOT NULL,
    slot   INTEGER NOT NULL,
    trials INTEGER NOT NULL,
    ttl_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE tracker_epoch (
    id    TEXT NOT NULL PRIMARY KEY,
    epoch INTEGER NOT NULL
) STRICT;

-- A fence that went back would let a late result win.
CREATE TRIGGER tracker_epoch_only_grows BEFORE UPDATE ON tracker_epoch WHEN NEW.epoch < OLD.epoch
BEGIN SELECT RAISE(ABORT, 'the epoch only grows'); END;
