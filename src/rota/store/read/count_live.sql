-- Counts a namespace's ready and running runs by pool, and since when the oldest is ready; reads at most `most` rows.
-- Index: primary key, in the order of ids: what was planned first is looked at first.
-- Locks: none
SELECT l.pool, count(*) FILTER (WHERE l.worker_id IS NULL) AS queued,
       count(*) FILTER (WHERE l.worker_id IS NOT NULL) AS running,
       min(l.ready_at) FILTER (WHERE l.worker_id IS NULL) AS oldest_at
  FROM (SELECT r.pool, r.worker_id, r.ready_at FROM rota.live_runs AS r
         WHERE r.namespace = :namespace AND r.ready_at <= now() ORDER BY r.id LIMIT :most) AS l
 GROUP BY l.pool
