-- Tries to take the locks of gates without waiting: those had. :numbers their numbers.
SELECT number FROM unnest(:numbers::bigint[]) AS number WHERE pg_try_advisory_xact_lock(number)
