-- Namespaces, pools and tasks of some of the runs that are ready and unclaimed, for people.
-- Index: none: reads the first ones in the order of the table, and no further.
-- Locks: none
SELECT DISTINCT first_ones.namespace, first_ones.pool, first_ones.task,
       EXISTS (SELECT FROM rota.pools AS p
                WHERE p.namespace = first_ones.namespace AND p.pool = first_ones.pool
                  AND p.paused_at IS NOT NULL) AS paused
  FROM (SELECT l.namespace, l.pool, l.task FROM rota.live_runs AS l WHERE l.worker_id IS NULL
           AND l.run_at <= clock_timestamp() LIMIT :limit) AS first_ones
