-- Locks the named runs that still wait at a gate, until the transaction ends, and says whether each is due: if the
-- clock went back, it may be early again. Skips runs that another transaction holds, because a wait here would hold up
-- every gate of the round.
-- Index: primary key, in the order given.
-- Locks: the runs, FOR UPDATE SKIP LOCKED.
-- Idioms: OFFSET 0.
SELECT h.namespace, h.id, h.job_id, h.cause, h.attempt, h.snoozes, h.nominal_at, h.policies,
       h.run_at <= clock_timestamp() AS due, clock_timestamp() AS database_time
  FROM unnest(:namespaces::text[], :run_ids::uuid[]) AS i (namespace, id)
 CROSS JOIN LATERAL (
       SELECT * FROM rota.held_runs AS h
        WHERE h.namespace = i.namespace AND h.id = i.id AND h.gate NOT IN ('pause', 'recall')
       OFFSET 0 FOR UPDATE SKIP LOCKED
       ) AS h
