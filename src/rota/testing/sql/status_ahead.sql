-- The status of a run that was made ready ahead of its time, while it waits for that. :run_id the run.
SELECT CASE WHEN attempt > 0 THEN 'retrying' ELSE 'scheduled' END AS status
  FROM rota.live_runs
 WHERE id = :run_id AND worker_id IS NULL AND ready_at > now()
