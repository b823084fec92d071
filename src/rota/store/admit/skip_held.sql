-- Skips runs at a gate: held -> finished (skipped), with the reason.
-- Index: primary key.
-- Locks: none of its own: callers have locked the runs.
-- Idioms: one-element array, by_id.
WITH taken AS (
    DELETE FROM rota.held_runs AS h USING unnest(:namespaces::text[], :run_ids::uuid[], :reasons::text[])
           AS i (namespace, id, reason)
     WHERE rota.by_id(h.namespace) = ANY (ARRAY[i.namespace]) AND h.id = ANY (ARRAY[i.id])
    RETURNING {h.run}, i.reason
), departed AS (
    INSERT INTO rota.departures (namespace, run_id, job_id, policies, outcome)
    SELECT namespace, id, job_id, policies, 'skipped' FROM taken WHERE policies IS NOT NULL
)
INSERT INTO rota.finished_runs ({run}, status, finished_at, reason)
SELECT {run}, 'skipped', now(), reason FROM taken
