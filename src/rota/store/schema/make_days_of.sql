-- Makes the day partitions that these run ids belong to: a report found none. :run_ids run ids.
SELECT count(*) FILTER (WHERE rota.make_day(day))
  FROM (SELECT DISTINCT (to_timestamp(('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint / 1000.0)
                         AT TIME ZONE 'UTC')::date AS day
          FROM unnest(:run_ids::uuid[]) AS i (id)) AS days
