-- Signers of records that projects trust.

CREATE TABLE tracker_signer (
    id   TEXT NOT NULL PRIMARY KEY,
    body BLOB NOT NULL
) STRICT;
