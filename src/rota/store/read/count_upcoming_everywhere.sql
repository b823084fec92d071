-- Counts runs of every namespace that wait for their time, by pool and whether they were started before. Reads at most
-- `most` rows: each namespace gets the same share of them.
-- Index: primary key, one probe per namespace.
-- Locks: none
-- Idioms: next namespace.
WITH RECURSIVE names AS (
    (SELECT x.namespace FROM rota.upcoming_runs AS x ORDER BY x.namespace LIMIT 1)
    UNION ALL
    SELECT (SELECT x.namespace FROM rota.upcoming_runs AS x WHERE x.namespace > names.namespace
             ORDER BY x.namespace LIMIT 1)
      FROM names WHERE names.namespace IS NOT NULL
), shares AS MATERIALIZED (
    SELECT names.namespace, (:most / count(*) OVER ()) AS most
      FROM (SELECT names.namespace FROM names LIMIT :most_namespaces) AS names WHERE names.namespace IS NOT NULL
)
SELECT shares.namespace, u.pool, count(*) FILTER (WHERE u.attempt > 0) AS retrying,
       count(*) FILTER (WHERE u.attempt = 0) AS scheduled
  FROM shares
 CROSS JOIN LATERAL (SELECT r.pool, r.attempt FROM rota.upcoming_runs AS r
                      WHERE r.namespace = shares.namespace ORDER BY r.id LIMIT shares.most) AS u
 GROUP BY shares.namespace, u.pool
