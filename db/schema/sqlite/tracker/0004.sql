-- For which of its holder's requests a lease was given: one whose grant died with its tracker is given again.

ALTER TABLE tracker_lease ADD COLUMN request INTEGER NOT NULL DEFAULT 0;
