-- Admits runs that passed their gates: held -> live. The unique index live_runs_in_order refuses a second run of an
-- ordering key.
-- Index: primary key.
-- Locks: none of its own: callers have locked the runs.
-- Idioms: one-element array, by_id.
WITH taken AS (
    DELETE FROM rota.held_runs AS h USING unnest(:namespaces::text[], :run_ids::uuid[]) AS i (namespace, id)
     WHERE rota.by_id(h.namespace) = ANY (ARRAY[i.namespace]) AND h.id = ANY (ARRAY[i.id])
    RETURNING {h.run}
), ready AS (
    INSERT INTO rota.live_runs ({run}, lane, ready_at)
    SELECT {run}, rota.lane_of(namespace, pool, task, priority), greatest(run_at, now()) FROM taken
)
SELECT DISTINCT pool FROM taken
