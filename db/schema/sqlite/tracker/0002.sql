-- Whose run a lease belongs to is not who holds it: a tuner that was started anew ends what its former run held.
-- Boards are kept whole, in service or not, so that a tracker knows after a restart what there is.

ALTER TABLE tracker_lease ADD COLUMN node TEXT NOT NULL DEFAULT '';
ALTER TABLE tracker_lease ADD COLUMN whole INTEGER NOT NULL DEFAULT 0;

CREATE TABLE tracker_board (
    id   TEXT NOT NULL PRIMARY KEY,
    body BLOB NOT NULL
) STRICT;
