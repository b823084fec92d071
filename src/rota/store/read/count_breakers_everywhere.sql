-- Counts breakers of every namespace by state. Reads at most `most` rows: each namespace gets the same share of them.
-- Index: primary key, one probe per namespace.
-- Locks: none
-- Idioms: next namespace.
WITH RECURSIVE names AS (
    (SELECT x.namespace FROM rota.gates AS x ORDER BY x.namespace LIMIT 1)
    UNION ALL
    SELECT (SELECT x.namespace FROM rota.gates AS x WHERE x.namespace > names.namespace
             ORDER BY x.namespace LIMIT 1)
      FROM names WHERE names.namespace IS NOT NULL
), shares AS MATERIALIZED (
    SELECT names.namespace, (:most / count(*) OVER ()) AS most
      FROM (SELECT names.namespace FROM names LIMIT :most_namespaces) AS names WHERE names.namespace IS NOT NULL
)
SELECT shares.namespace, g.state, count(*) AS breakers
  FROM shares
 CROSS JOIN LATERAL (SELECT b.state FROM rota.gates AS b
                      WHERE b.namespace = shares.namespace AND b.kind = 'breaker' AND b.state IS NOT NULL
                      ORDER BY b.key LIMIT shares.most) AS g
 GROUP BY shares.namespace, g.state
