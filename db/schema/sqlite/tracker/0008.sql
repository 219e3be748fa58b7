-- What was measured of processors: the first board's figures of each target.

CREATE TABLE tracker_figures (
    id   TEXT NOT NULL PRIMARY KEY,
    body BLOB NOT NULL
) STRICT;
