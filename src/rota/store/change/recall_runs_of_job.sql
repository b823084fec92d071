-- Recalls the claimed runs of a recurring job that changed: a worker gives back what it has not started. Gives the
-- workers to tell.
-- Index: live_runs_of_job.
-- Locks: the runs.
UPDATE rota.live_runs SET recalled = true
 WHERE namespace = :namespace AND job_id = :job_id AND job_id <> id AND worker_id IS NOT NULL AND NOT recalled
RETURNING worker_id
