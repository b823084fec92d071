-- Takes the locks of gates until the transaction ends. :numbers their numbers, in order: all take them in the same.
SELECT pg_advisory_xact_lock(number) FROM unnest(:numbers::bigint[]) AS number
