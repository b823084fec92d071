-- Cancels one-shot jobs that no worker has claimed, because others take their place. One that is claimed, or moves at
-- this moment, goes on.
-- Index: primary keys.
-- Locks: the runs, in the order given.
-- Idioms: one-element array, by_id.
WITH input AS (
    SELECT * FROM unnest(:namespaces::text[], :run_ids::uuid[], :reasons::text[]) AS i (namespace, id, reason)
), from_upcoming AS (
    DELETE FROM rota.upcoming_runs AS u USING input AS i
     WHERE rota.by_id(u.namespace) = ANY (ARRAY[i.namespace]) AND u.id = ANY (ARRAY[i.id]) RETURNING {u.run}, i.reason
), from_held AS (
    DELETE FROM rota.held_runs AS h USING input AS i
     WHERE rota.by_id(h.namespace) = ANY (ARRAY[i.namespace]) AND h.id = ANY (ARRAY[i.id]) RETURNING {h.run}, i.reason
), from_live AS (
    DELETE FROM rota.live_runs AS l USING input AS i
     WHERE rota.by_id(l.namespace) = ANY (ARRAY[i.namespace]) AND l.id = ANY (ARRAY[i.id]) AND l.claim IS NULL
    RETURNING {l.run}, i.reason
), taken AS (
    SELECT * FROM from_upcoming UNION ALL SELECT * FROM from_held UNION ALL SELECT * FROM from_live
), departed AS (
    INSERT INTO rota.departures (namespace, run_id, job_id, policies, outcome)
    SELECT namespace, id, job_id, policies, 'cancelled' FROM taken WHERE policies IS NOT NULL
)
INSERT INTO rota.finished_runs ({run}, status, finished_at, cancel_requested, reason)
SELECT {run}, 'cancelled', now(), true, reason FROM taken
