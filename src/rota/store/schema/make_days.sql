-- Makes the day partitions of history from yesterday to `ahead` days ahead. Returns how many were missing.
-- Index: none
-- Locks: the parent tables, briefly, where a day is missing; see make_day.
SELECT count(*) FILTER (WHERE rota.make_day((now() AT TIME ZONE 'UTC')::date + ahead))
  FROM generate_series(-1, :ahead::integer) AS ahead
