-- Shares of projects: what a restart must not give back to who had more than its part.

CREATE TABLE tracker_share (
    id   TEXT NOT NULL PRIMARY KEY,
    body BLOB NOT NULL
) STRICT;
