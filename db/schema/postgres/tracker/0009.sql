-- As schema/sqlite/tracker/0009.sql: the last upgrade of the fleet.

CREATE TABLE tracker_upgrade (
    id    TEXT NOT NULL PRIMARY KEY,
    body  BYTEA NOT NULL,
    rowid BIGINT GENERATED ALWAYS AS IDENTITY UNIQUE
);
