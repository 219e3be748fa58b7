-- As schema/sqlite/records/0007.sql: which signer took the place of which.

CREATE TABLE succession (
    predecessor TEXT NOT NULL PRIMARY KEY,
    successor   TEXT NOT NULL,
    proof       BYTEA NOT NULL,
    rowid       BIGINT GENERATED ALWAYS AS IDENTITY UNIQUE
);
