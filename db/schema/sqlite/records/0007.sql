-- Which signer took the place of which, said by the one before: docs/decisions/0020-who-measured-it.md.

CREATE TABLE succession (
    predecessor TEXT NOT NULL PRIMARY KEY,
    successor   TEXT NOT NULL,
    proof       BLOB NOT NULL
) STRICT;
