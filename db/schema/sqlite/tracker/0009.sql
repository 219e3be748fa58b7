-- The last upgrade of the fleet, and its boards.

CREATE TABLE tracker_upgrade (
    id   TEXT NOT NULL PRIMARY KEY,
    body BLOB NOT NULL
) STRICT;
