-- What an autoscaler needs to know of a pool: what waits and runs there (at most `most` runs), what its workers offer, how
-- long attempts took since `runs_since`, how many started since `starts_since`, and what samples saw since `seen_since`.
-- Runs on workers that drain or are silent need no other slots, and those workers offer none.
-- Index: primary keys; of live runs in the order of ids, over runs of other pools; the whole of workers, a small table.
-- Locks: none
WITH fleet AS MATERIALIZED (
    SELECT w.id, w.slots, w.draining OR now() - w.beat_at > w.lease AS leaves
      FROM rota.workers AS w
     WHERE w.gone_at IS NULL AND :namespace = ANY (w.namespaces) AND :pool = ANY (w.pools)
), live AS (
    SELECT count(*) FILTER (WHERE l.worker_id IS NULL) AS queued, count(*) FILTER (WHERE l.worker_id IS NOT NULL) AS running,
           count(*) FILTER (WHERE l.worker_id IN (SELECT id FROM fleet WHERE NOT leaves)) AS staying,
           min(l.ready_at) FILTER (WHERE l.worker_id IS NULL) AS oldest_at
      FROM (SELECT r.worker_id, r.ready_at FROM rota.live_runs AS r
             WHERE r.namespace = :namespace AND r.pool = :pool AND r.ready_at <= now() ORDER BY r.id LIMIT :most) AS l
), told AS (
    SELECT coalesce(sum(t.started) FILTER (WHERE t.at >= now() - :starts_since::interval), 0)::bigint AS started,
           coalesce(sum(t.succeeded + t.failed + t.retried) FILTER (WHERE t.durations IS NOT NULL), 0)::bigint AS ended,
           coalesce(sum(t.run_seconds), 0) AS run_seconds
      FROM rota.tallies AS t
     WHERE t.at >= now() - :runs_since::interval AND t.at <= now() AND t.namespace = :namespace AND t.pool = :pool
)
SELECT live.queued, live.running, live.staying,
       greatest(0, extract(epoch FROM now() - live.oldest_at))::float8 AS oldest_seconds,
       (SELECT count(*) FROM fleet WHERE NOT leaves) AS workers,
       (SELECT coalesce(sum(slots), 0) FROM fleet WHERE NOT leaves)::bigint AS slots,
       told.started, told.ended, told.run_seconds,
       EXISTS (SELECT FROM rota.pools AS p WHERE p.namespace = :namespace AND p.pool = :pool AND p.paused_at IS NOT NULL)
           AS paused,
       (SELECT coalesce(array_agg(ARRAY[s.queued, s.running, s.slots]), '{}')
          FROM rota.samples AS s
         WHERE s.at >= now() - :seen_since::interval AND s.at <= now() AND s.namespace = :namespace AND s.pool = :pool)
           AS seen
  FROM live CROSS JOIN told
