-- Tries to take the locks of gates without waiting; gives those it got.
-- Index: none
-- Locks: an advisory lock per gate, where it is free.
SELECT number FROM unnest(:numbers::bigint[]) AS number WHERE pg_try_advisory_xact_lock(number)
