-- Tries to take the locks of gates without waiting: those had. $1 their numbers.
SELECT number FROM unnest($1::bigint[]) AS number WHERE pg_try_advisory_xact_lock(number)
