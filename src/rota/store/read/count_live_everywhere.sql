-- Counts ready and running runs of every namespace by pool, and since when the oldest is ready. Reads at most `most`
-- rows: each namespace gets the same share of them.
-- Index: primary key, one probe per namespace; in the order of ids: what was planned first is looked at first.
-- Locks: none
-- Idioms: next namespace.
WITH RECURSIVE names AS (
    (SELECT x.namespace FROM rota.live_runs AS x ORDER BY x.namespace LIMIT 1)
    UNION ALL
    SELECT (SELECT x.namespace FROM rota.live_runs AS x WHERE x.namespace > names.namespace
             ORDER BY x.namespace LIMIT 1)
      FROM names WHERE names.namespace IS NOT NULL
), shares AS MATERIALIZED (
    SELECT names.namespace, (:most / count(*) OVER ()) AS most
      FROM (SELECT names.namespace FROM names LIMIT :most_namespaces) AS names WHERE names.namespace IS NOT NULL
)
SELECT shares.namespace, l.pool, count(*) FILTER (WHERE l.worker_id IS NULL) AS queued,
       count(*) FILTER (WHERE l.worker_id IS NOT NULL) AS running,
       extract(epoch FROM now() - min(l.ready_at) FILTER (WHERE l.worker_id IS NULL))::float8 AS oldest_seconds
  FROM shares
 CROSS JOIN LATERAL (SELECT r.pool, r.worker_id, r.ready_at FROM rota.live_runs AS r
                      WHERE r.namespace = shares.namespace AND r.ready_at <= now() ORDER BY r.id
                      LIMIT shares.most) AS l
 GROUP BY shares.namespace, l.pool
