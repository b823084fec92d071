-- Which of several runs have ended.
-- Index: primary key of finished_runs, one day of it each.
-- Locks: none
-- Idioms: OFFSET 0.
SELECT i.namespace, i.id
  FROM unnest(:namespaces::text[], :run_ids::uuid[]) AS i (namespace, id)
 CROSS JOIN LATERAL (
       SELECT f.status FROM rota.finished_runs AS f WHERE f.namespace = i.namespace AND f.id = i.id OFFSET 0
       ) AS f
