-- What is indexed and exported of the runs of logs, with ids from `first` to `last`. Runs that history no longer has are
-- missing.
-- Index: primary keys; the ids prune history.
-- Locks: none
-- Plan: custom
-- Idioms: OFFSET 0.
SELECT r.namespace, r.id, r.job_id, r.owner, r.name, r.task, r.pool, r.tags
  FROM unnest(:namespaces::text[], :run_ids::uuid[]) AS i (namespace, id)
 CROSS JOIN LATERAL (
       SELECT r.namespace, r.id, r.job_id, r.owner, r.name, r.task, r.pool, r.tags FROM rota.runs AS r
        WHERE r.namespace = i.namespace AND r.id = i.id AND r.id >= :first AND r.id <= :last OFFSET 0) AS r
