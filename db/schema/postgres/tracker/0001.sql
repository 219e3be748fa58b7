-- What a tracker must not forget when it is killed: what schema/sqlite/tracker/ has arrived at. Never edited after
-- release: a change is a new number.

CREATE TABLE tracker_job (
    id    TEXT NOT NULL PRIMARY KEY,
    state TEXT NOT NULL,
    body  BYTEA NOT NULL,
    rowid BIGINT GENERATED ALWAYS AS IDENTITY UNIQUE
);

CREATE TABLE tracker_lease (
    id     TEXT NOT NULL PRIMARY KEY,
    board  TEXT NOT NULL,
    tuner  TEXT NOT NULL,
    job    TEXT,
    epoch  BIGINT NOT NULL,
    slot   BIGINT NOT NULL,
    trials BIGINT NOT NULL,
    ttl_ms BIGINT NOT NULL,
    rowid  BIGINT GENERATED ALWAYS AS IDENTITY UNIQUE
);

CREATE TABLE tracker_epoch (
    id    TEXT NOT NULL PRIMARY KEY,
    epoch BIGINT NOT NULL,
    rowid BIGINT GENERATED ALWAYS AS IDENTITY UNIQUE
);

-- A fence that went back would let a late result win.
CREATE FUNCTION tracker_epoch_only_grows() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.epoch < OLD.epoch THEN RAISE EXCEPTION 'the epoch only grows'; END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER tracker_epoch_only_grows BEFORE UPDATE ON tracker_epoch
    FOR EACH ROW EXECUTE FUNCTION tracker_epoch_only_grows();
