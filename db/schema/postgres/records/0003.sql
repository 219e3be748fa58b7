-- Who works on what: tuners that share this database claim a job before they work on it. A claim that is not renewed
-- until `until` is free for others.

CREATE TABLE claim (
    id     TEXT NOT NULL PRIMARY KEY,
    holder TEXT NOT NULL,
    until  TIMESTAMPTZ NOT NULL
);
