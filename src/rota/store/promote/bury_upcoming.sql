-- Buries a run that can't be promoted because of its data: upcoming -> finished (failed) and a dead letter.
-- Index: primary key.
-- Locks: the run.
WITH taken AS (
    DELETE FROM rota.upcoming_runs WHERE namespace = :namespace AND id = :run_id RETURNING {run}
), departed AS (
    INSERT INTO rota.departures (namespace, run_id, job_id, policies, outcome)
    SELECT namespace, id, job_id, policies, 'failed' FROM taken WHERE policies IS NOT NULL
       AND (attempt > 0 OR snoozes > 0 OR (policies -> 'awaited') IS NOT NULL)
), buried AS (
    INSERT INTO rota.dead_letters (namespace, run_id, job_id, name, task, error, owner)
    SELECT namespace, id, job_id, name, task, :error, owner FROM taken
)
INSERT INTO rota.finished_runs ({run}, status, finished_at, error)
SELECT {run}, 'failed', now(), :error FROM taken
