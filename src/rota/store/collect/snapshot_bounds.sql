-- The oldest transaction that has not ended, and a number above those of all that have begun to write. That takes a number of
-- its own: the end of a snapshot is only above what has ended.
-- Index: none
-- Locks: none
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS oldest, pg_current_xact_id()::text::bigint AS next
