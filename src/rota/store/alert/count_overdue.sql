-- How many schedules of each namespace have not fired although their time came longer ago than a grace, and how many are
-- scheduled in all (`scheduled`, the same in each row); each counted up to `most` of a shard. One row without a namespace
-- when none is overdue.
-- Index: jobs_due, ranges of each shard.
-- Locks: none
WITH shards AS MATERIALIZED (
    SELECT generate_series(0, c.shards - 1)::smallint AS shard FROM rota.constants AS c
), overdue AS (
    SELECT f.namespace, count(*) AS overdue FROM shards AS s
     CROSS JOIN LATERAL (
           SELECT j.namespace FROM rota.jobs AS j
            WHERE j.shard = s.shard AND j.state = 'scheduled' AND j.next_fire_at < now() - :grace::interval
            ORDER BY j.next_fire_at LIMIT :most) AS f
     GROUP BY f.namespace
), scheduled AS (
    SELECT count(*) AS scheduled FROM shards AS s
     CROSS JOIN LATERAL (
           SELECT j.shard FROM rota.jobs AS j
            WHERE j.shard = s.shard AND j.state = 'scheduled' ORDER BY j.next_fire_at LIMIT :most) AS f
)
SELECT o.namespace, coalesce(o.overdue, 0) AS overdue, a.scheduled
  FROM scheduled AS a LEFT JOIN overdue AS o ON true
 ORDER BY o.namespace
