-- A wait for a lock in this transaction ends after so long.
-- Index: none
-- Locks: none
SELECT set_config('lock_timeout', :longest::text, true)
