-- The named runs if they still wait at a gate, ours until the transaction ends.
-- Index: primary key, in the order given.
-- Locks: the runs, FOR UPDATE.
-- Idioms: OFFSET 0.
SELECT h.namespace, h.id, h.job_id, h.cause, h.attempt, h.snoozes, h.nominal_at, h.run_at, h.pool, h.policies,
       clock_timestamp() AS database_time
  FROM unnest(:namespaces::text[], :run_ids::uuid[]) AS i (namespace, id)
 CROSS JOIN LATERAL (
       SELECT * FROM rota.held_runs AS h
        WHERE h.namespace = i.namespace AND h.id = i.id AND h.gate NOT IN ('pause', 'recall')
       OFFSET 0 FOR UPDATE
       ) AS h
