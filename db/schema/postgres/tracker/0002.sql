-- As schema/sqlite/tracker/0002.sql: who holds a lease beside its run, all slots or one, and boards.

ALTER TABLE tracker_lease ADD COLUMN node TEXT NOT NULL DEFAULT '';
ALTER TABLE tracker_lease ADD COLUMN whole BIGINT NOT NULL DEFAULT 0;

CREATE TABLE tracker_board (
    id    TEXT NOT NULL PRIMARY KEY,
    body  BYTEA NOT NULL,
    rowid BIGINT GENERATED ALWAYS AS IDENTITY UNIQUE
);
