-- The run that has been ready longest in each lane, if that is longer than `waited`: its namespace, pool and task, and
-- what the fleet offers to it. Runs in paused pools are left out: a person paused them. At most `most` lanes.
-- Index: live_runs_ready, its first entry of each lane.
-- Locks: none
WITH RECURSIVE heads AS (
    (SELECT l.lane, l.namespace, l.pool, l.task, l.ready_at FROM rota.live_runs AS l
      WHERE l.worker_id IS NULL AND l.lane >= (-9223372036854775808)::bigint
      ORDER BY l.lane, l.ready_at LIMIT 1)
    UNION ALL
    SELECT f.* FROM heads AS h
     CROSS JOIN LATERAL (
           SELECT l.lane, l.namespace, l.pool, l.task, l.ready_at FROM rota.live_runs AS l
            WHERE l.worker_id IS NULL AND l.lane > h.lane ORDER BY l.lane, l.ready_at LIMIT 1) AS f
), waiting AS (
    SELECT h.namespace, h.pool, h.task, extract(epoch FROM now() - min(h.ready_at))::float8 AS seconds
      FROM (SELECT * FROM heads LIMIT :most) AS h
     WHERE h.ready_at < now() - :waited::interval
     GROUP BY h.namespace, h.pool, h.task
)
SELECT w.namespace, w.pool, w.task, w.seconds, f.serving_pool, f.able
  FROM waiting AS w
 CROSS JOIN LATERAL (
       SELECT count(*) FILTER (WHERE w.pool = ANY (k.pools)) AS serving_pool,
              count(*) FILTER (WHERE w.pool = ANY (k.pools) AND w.task = ANY (k.tasks)) AS able
         FROM rota.workers AS k
        WHERE k.gone_at IS NULL AND NOT k.draining AND w.namespace = ANY (k.namespaces)) AS f
 WHERE NOT EXISTS (SELECT FROM rota.pools AS p
                    WHERE p.namespace = w.namespace AND p.pool = w.pool AND p.paused_at IS NOT NULL)
   AND (:pool::text IS NULL OR w.pool = :pool) AND (:task::text IS NULL OR w.task = :task)
 ORDER BY w.namespace, w.pool, w.seconds DESC
