-- Makes the day partitions that these run ids belong to: a write found none.
-- Index: none
-- Locks: the parent tables, briefly, where a day is missing; see make_day.
SELECT count(*) FILTER (WHERE rota.make_day(day))
  FROM (SELECT DISTINCT (to_timestamp(('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint / 1000.0)
                         AT TIME ZONE 'UTC')::date AS day
          FROM unnest(:run_ids::uuid[]) AS i (id)) AS days
