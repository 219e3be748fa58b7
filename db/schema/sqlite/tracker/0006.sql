-- Blobs that people handed in: who, how large, when.

CREATE TABLE tracker_blob (
    id   TEXT NOT NULL PRIMARY KEY,
    body BLOB NOT NULL
) STRICT;
