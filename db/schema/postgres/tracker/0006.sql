-- As schema/sqlite/tracker/0006.sql: blobs that people handed in.

CREATE TABLE tracker_blob (
    id    TEXT NOT NULL PRIMARY KEY,
    body  BYTEA NOT NULL,
    rowid BIGINT GENERATED ALWAYS AS IDENTITY UNIQUE
);
