-- Which of several runs, with ids from `first` to `last`, have ended.
-- Index: primary key of finished_runs, one day of it each.
-- Locks: none
-- Plan: custom
-- Idioms: OFFSET 0.
SELECT i.namespace, i.id
  FROM unnest(:namespaces::text[], :run_ids::uuid[]) AS i (namespace, id)
 CROSS JOIN LATERAL (
       SELECT f.status FROM rota.finished_runs AS f
        WHERE f.namespace = i.namespace AND f.id = i.id AND f.id >= :first AND f.id <= :last OFFSET 0
       ) AS f
