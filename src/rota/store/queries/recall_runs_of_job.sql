-- Recalls the claimed runs of a recurring job that changed: a worker gives back what it has not started.
-- $1 namespace; $2 job id. Gives back the workers to tell. Index: live_runs_of_job.
UPDATE rota.live_runs SET recalled = true
 WHERE namespace = $1 AND job_id = $2 AND job_id <> id AND worker_id IS NOT NULL AND NOT recalled
RETURNING worker_id
