-- As schema/sqlite/tracker/0007.sql: signers of records that projects trust.

CREATE TABLE tracker_signer (
    id    TEXT NOT NULL PRIMARY KEY,
    body  BYTEA NOT NULL,
    rowid BIGINT GENERATED ALWAYS AS IDENTITY UNIQUE
);
