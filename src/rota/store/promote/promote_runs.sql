-- Promotes the named runs, late as they are: upcoming -> live, or held where they have policies. One that was started
-- since it was found, and waits for a later time now, keeps that.
-- Index: primary key.
-- Locks: the runs, in the order given.
-- Idioms: one-element array, by_id.
WITH input AS (
    SELECT * FROM unnest(:namespaces::text[], :run_ids::uuid[]) AS i (namespace, id)
), taken AS (
    DELETE FROM rota.upcoming_runs AS u USING input AS i
     WHERE rota.by_id(u.namespace) = ANY (ARRAY[i.namespace]) AND u.id = ANY (ARRAY[i.id])
       AND u.run_at - :lookahead::interval <= now()
    RETURNING {u.run}
), ready AS (
    INSERT INTO rota.live_runs ({run}, lane, ready_at)
    SELECT {run}, rota.lane_of(namespace, pool, task, priority), greatest(run_at, now()) FROM taken
     WHERE policies IS NULL
), gated AS (
    INSERT INTO rota.held_runs ({run}, gate) SELECT {run}, 'new' FROM taken WHERE policies IS NOT NULL
)
SELECT pool, count(*) AS runs, bool_or(policies IS NOT NULL) AS gated FROM taken GROUP BY pool
