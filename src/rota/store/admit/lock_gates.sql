-- Takes the locks of gates until the transaction ends, in the order of their numbers: every transaction takes them in
-- the same order.
-- Index: none
-- Locks: an advisory lock per gate.
SELECT pg_advisory_xact_lock(number) FROM unnest(:numbers::bigint[]) AS number
