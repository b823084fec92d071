-- The database's clock.
-- Index: none
-- Locks: none
SELECT clock_timestamp()
