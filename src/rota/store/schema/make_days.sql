-- Makes the day partitions of history from yesterday to :ahead days ahead. Gives back how many were missing.
SELECT count(*) FILTER (WHERE rota.make_day((now() AT TIME ZONE 'UTC')::date + ahead))
  FROM generate_series(-1, :ahead::integer) AS ahead
