-- Counts dead letters of every namespace. Reads at most `most` rows: each namespace gets the same share of them.
-- Index: primary key, one probe per namespace.
-- Locks: none
-- Idioms: next namespace.
WITH RECURSIVE names AS (
    (SELECT x.namespace FROM rota.dead_letters AS x ORDER BY x.namespace LIMIT 1)
    UNION ALL
    SELECT (SELECT x.namespace FROM rota.dead_letters AS x WHERE x.namespace > names.namespace
             ORDER BY x.namespace LIMIT 1)
      FROM names WHERE names.namespace IS NOT NULL
), shares AS MATERIALIZED (
    SELECT names.namespace, (:most / count(*) OVER ()) AS most
      FROM (SELECT names.namespace FROM names LIMIT :most_namespaces) AS names WHERE names.namespace IS NOT NULL
)
SELECT shares.namespace,
       (SELECT count(*) FROM (SELECT FROM rota.dead_letters AS d WHERE d.namespace = shares.namespace
                               ORDER BY d.run_id LIMIT shares.most) AS first_ones) AS letters
  FROM shares
