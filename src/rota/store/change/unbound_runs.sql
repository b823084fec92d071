-- How many runs of a recurring job are neither bound to this version nor recalled. One statement, one snapshot: a run
-- is in exactly one place in it, so 0 means there is none.
-- Index: upcoming_runs_of_job, live_runs_of_job, held_runs_of_job.
-- Locks: none
SELECT (SELECT count(*) FROM rota.upcoming_runs
         WHERE namespace = :namespace AND job_id = :job_id AND job_id <> id AND job_version < :version)
     + (SELECT count(*) FROM rota.held_runs
         WHERE namespace = :namespace AND job_id = :job_id AND job_id <> id AND job_version < :version)
     + (SELECT count(*) FROM rota.live_runs
         WHERE namespace = :namespace AND job_id = :job_id AND job_id <> id AND job_version < :version
           AND (worker_id IS NULL OR NOT recalled))
