-- Promotes the named late runs: upcoming -> live, or held if they have policies. A run that was started since it was
-- found, and now waits for a later time, is left alone. A run that another transaction holds is left for the next look,
-- because waiting for it would delay all others.
-- Index: primary key.
-- Locks: the runs, FOR UPDATE SKIP LOCKED.
-- Idioms: OFFSET 0, ctid.
WITH due AS MATERIALIZED (
    SELECT u.place
      FROM unnest(:namespaces::text[], :run_ids::uuid[]) AS i (namespace, id)
     CROSS JOIN LATERAL (
           SELECT u.ctid AS place FROM rota.upcoming_runs AS u
            WHERE u.namespace = i.namespace AND u.id = i.id AND u.run_at - :lookahead::interval <= now()
           OFFSET 0 FOR UPDATE SKIP LOCKED
           ) AS u
), taken AS (
    DELETE FROM rota.upcoming_runs AS u WHERE u.ctid = ANY (ARRAY(SELECT place FROM due))
    RETURNING {u.run}
), ready AS (
    INSERT INTO rota.live_runs ({run}, lane, ready_at)
    SELECT {run}, rota.lane_of(namespace, pool, task, priority), greatest(run_at, now()) FROM taken
     WHERE policies IS NULL
), gated AS (
    INSERT INTO rota.held_runs ({run}, gate) SELECT {run}, 'new' FROM taken WHERE policies IS NOT NULL
)
SELECT pool, count(*) AS runs, bool_or(policies IS NOT NULL) AS gated FROM taken GROUP BY pool
