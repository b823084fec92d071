-- The runs of a job with ids below `before`, latest first.
-- Index: primary keys, upcoming_runs_of_job, live_runs_of_job, held_runs_of_job, finished_runs_of_job.
-- Locks: none
SELECT * FROM (
    (SELECT * FROM rota.runs WHERE namespace = :namespace AND id = :job_id AND job_id = id AND id < :before)
    UNION ALL
    (SELECT * FROM rota.runs WHERE namespace = :namespace AND job_id = :job_id AND job_id <> id AND id < :before
      ORDER BY id DESC LIMIT :limit)
) AS r
 ORDER BY id DESC
 LIMIT :limit
