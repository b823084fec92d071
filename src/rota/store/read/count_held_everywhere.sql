-- Counts runs of every namespace that are held at a gate, by pool and kind of gate. Reads at most `most` rows: each
-- namespace gets the same share of them.
-- Index: primary key, one probe per namespace.
-- Locks: none
-- Idioms: next namespace.
WITH RECURSIVE names AS (
    (SELECT x.namespace FROM rota.held_runs AS x ORDER BY x.namespace LIMIT 1)
    UNION ALL
    SELECT (SELECT x.namespace FROM rota.held_runs AS x WHERE x.namespace > names.namespace
             ORDER BY x.namespace LIMIT 1)
      FROM names WHERE names.namespace IS NOT NULL
), shares AS MATERIALIZED (
    SELECT names.namespace, (:most / count(*) OVER ()) AS most
      FROM (SELECT names.namespace FROM names LIMIT :most_namespaces) AS names WHERE names.namespace IS NOT NULL
)
SELECT shares.namespace, h.pool, h.gate, count(*) AS held
  FROM shares
 CROSS JOIN LATERAL (SELECT r.pool, r.gate FROM rota.held_runs AS r
                      WHERE r.namespace = shares.namespace ORDER BY r.id LIMIT shares.most) AS h
 GROUP BY shares.namespace, h.pool, h.gate
