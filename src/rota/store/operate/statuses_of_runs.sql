-- The statuses of runs with ids from `first` to `last`, and whether they were started.
-- Index: primary keys, one day of history each.
-- Locks: none
-- Plan: custom
-- Idioms: OFFSET 0.
SELECT i.id, r.status, r.has_run
  FROM unnest(:run_ids::uuid[]) AS i (id)
 CROSS JOIN LATERAL (
       SELECT o.status, true AS has_run FROM rota.open_runs AS o WHERE o.namespace = :namespace AND o.id = i.id
       UNION ALL
       SELECT f.status, f.started_at IS NOT NULL FROM rota.finished_runs AS f
        WHERE f.namespace = :namespace AND f.id = i.id AND f.id >= :first AND f.id <= :last
       OFFSET 0
       ) AS r
