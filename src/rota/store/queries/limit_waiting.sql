-- Whoever waits for a lock in this transaction gives up after a while. $1 how long.
SELECT set_config('lock_timeout', $1::text, true)
