-- Reserved boards and maintenance windows.

CREATE TABLE tracker_calendar (
    id   TEXT NOT NULL PRIMARY KEY,
    body BLOB NOT NULL
) STRICT;
