-- Admits runs that passed their gates: held -> live. $1 namespaces; $2 run ids, in order; callers have locked them.
-- Index: primary key. The unique index live_runs_in_order refuses a second run of an ordering key.
WITH taken AS (
    DELETE FROM rota.held_runs AS h USING unnest($1::text[], $2::uuid[]) AS i (namespace, id)
     WHERE h.namespace = ANY (ARRAY[i.namespace]) AND h.id = ANY (ARRAY[i.id])
    RETURNING {h.run}
), ready AS (
    INSERT INTO rota.live_runs ({run}, lane, ready_at)
    SELECT {run}, rota.lane_of(namespace, pool, task, priority), greatest(run_at, now()) FROM taken
)
SELECT DISTINCT pool FROM taken
