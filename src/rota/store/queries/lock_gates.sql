-- Takes the locks of gates until the transaction ends. $1 their numbers, in order: all take them in the same.
SELECT pg_advisory_xact_lock(number) FROM unnest($1::bigint[]) AS number
