-- As schema/sqlite/tracker/0004.sql: the request that a lease answers.

ALTER TABLE tracker_lease ADD COLUMN request BIGINT NOT NULL DEFAULT 0;
