-- As schema/sqlite/tracker/0010.sql: reserved boards and maintenance windows.

CREATE TABLE tracker_calendar (
    id    TEXT NOT NULL PRIMARY KEY,
    body  BYTEA NOT NULL,
    rowid BIGINT GENERATED ALWAYS AS IDENTITY UNIQUE
);
