-- Makes the day partitions that these run ids belong to: a report found none. $1 run ids.
SELECT count(*) FILTER (WHERE rota.make_day(day))
  FROM (SELECT DISTINCT (to_timestamp(('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint / 1000.0)
                         AT TIME ZONE 'UTC')::date AS day
          FROM unnest($1::uuid[]) AS i (id)) AS days
