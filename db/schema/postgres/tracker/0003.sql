-- As schema/sqlite/tracker/0003.sql: shares of projects.

CREATE TABLE tracker_share (
    id    TEXT NOT NULL PRIMARY KEY,
    body  BYTEA NOT NULL,
    rowid BIGINT GENERATED ALWAYS AS IDENTITY UNIQUE
);
