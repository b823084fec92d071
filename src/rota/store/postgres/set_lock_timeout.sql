-- Limits waits for locks in this transaction to `longest`.
-- Index: none
-- Locks: none
SELECT set_config('lock_timeout', :longest::text, true)
