-- The latest runs of a job that have ended, latest first.
-- Index: the primary key, finished_runs_of_job.
-- Locks: none
SELECT id, status, started_at, finished_at, attempt FROM (
    (SELECT * FROM rota.runs WHERE place = 'finished' AND namespace = :namespace AND id = :job_id AND job_id = id)
    UNION ALL
    (SELECT * FROM rota.runs WHERE place = 'finished' AND namespace = :namespace AND job_id = :job_id AND job_id <> id
      ORDER BY id DESC LIMIT :limit)
) AS r
 ORDER BY id DESC
 LIMIT :limit
