-- The runs of a job that have not ended and whose cancel was not asked for.
-- Index: primary keys for the one-shot itself; upcoming_runs_of_job, held_runs_of_job, live_runs_of_job.
-- Locks: none
SELECT id FROM rota.upcoming_runs WHERE namespace = :namespace AND id = :job_id AND job_id = id
UNION ALL
SELECT id FROM rota.held_runs WHERE namespace = :namespace AND id = :job_id AND job_id = id
UNION ALL
SELECT id FROM rota.live_runs WHERE namespace = :namespace AND id = :job_id AND job_id = id
   AND cancel_requested_at IS NULL
UNION ALL
SELECT id FROM rota.upcoming_runs WHERE namespace = :namespace AND job_id = :job_id AND job_id <> id
UNION ALL
SELECT id FROM rota.held_runs WHERE namespace = :namespace AND job_id = :job_id AND job_id <> id
UNION ALL
SELECT id FROM rota.live_runs WHERE namespace = :namespace AND job_id = :job_id AND job_id <> id
                                AND cancel_requested_at IS NULL
ORDER BY id
