-- As schema/sqlite/tracker/0008.sql: the first board's figures of each target.

CREATE TABLE tracker_figures (
    id    TEXT NOT NULL PRIMARY KEY,
    body  BYTEA NOT NULL,
    rowid BIGINT GENERATED ALWAYS AS IDENTITY UNIQUE
);
