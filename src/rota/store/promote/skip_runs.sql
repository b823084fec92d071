-- Skips runs that were missed: upcoming -> finished (skipped), with the reason. A run that another scheduler has
-- started since it was judged, and that now waits for its retry, is left alone. Leaves a note for those that depend on it.
-- Index: primary key.
-- Locks: the runs, in the order given.
-- Idioms: one-element array, by_id.
WITH input AS (
    SELECT * FROM unnest(:namespaces::text[], :run_ids::uuid[], :reasons::text[]) AS i (namespace, id, reason)
), taken AS (
    DELETE FROM rota.upcoming_runs AS u USING input AS i
     WHERE rota.by_id(u.namespace) = ANY (ARRAY[i.namespace]) AND u.id = ANY (ARRAY[i.id])
       AND u.attempt = 0 AND u.losses = 0 AND u.snoozes = 0 AND u.checkpoint IS NULL
    RETURNING {u.run}, i.reason
), departed AS (
    INSERT INTO rota.departures (namespace, run_id, job_id, policies, outcome)
    SELECT namespace, id, job_id, policies, 'skipped' FROM taken WHERE (policies -> 'awaited') IS NOT NULL
)
INSERT INTO rota.finished_runs ({run}, status, finished_at, reason)
SELECT {run}, 'skipped', now(), reason FROM taken
RETURNING id
