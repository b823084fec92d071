-- The named runs if they still wait at a gate, ours until the transaction ends, and whether each is due: a clock that
-- went back may have made it early again. One that another transaction holds is passed over: whoever waits here holds
-- up every gate of the round.
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
