-- Whoever waits for a lock in this transaction gives up after a while. :longest how long.
SELECT set_config('lock_timeout', :longest::text, true)
