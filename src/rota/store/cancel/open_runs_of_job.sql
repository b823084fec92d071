-- The runs of a job that have not ended, and whether their workers were asked to stop them.
-- Index: primary keys for the one-shot itself; upcoming_runs_of_job, held_runs_of_job, live_runs_of_job.
-- Locks: none
SELECT id, false AS asked FROM rota.upcoming_runs WHERE namespace = :namespace AND id = :job_id AND job_id = id
UNION ALL
SELECT id, false FROM rota.held_runs WHERE namespace = :namespace AND id = :job_id AND job_id = id
UNION ALL
SELECT id, cancel_requested_at IS NOT NULL FROM rota.live_runs
 WHERE namespace = :namespace AND id = :job_id AND job_id = id
UNION ALL
SELECT id, false FROM rota.upcoming_runs WHERE namespace = :namespace AND job_id = :job_id AND job_id <> id
UNION ALL
SELECT id, false FROM rota.held_runs WHERE namespace = :namespace AND job_id = :job_id AND job_id <> id
UNION ALL
SELECT id, cancel_requested_at IS NOT NULL FROM rota.live_runs
 WHERE namespace = :namespace AND job_id = :job_id AND job_id <> id
ORDER BY id
