-- How many runs of a recurring job are neither bound to its version :version nor recalled. One statement, one snapshot: a
-- run is in exactly one place in it, so 0 means there is none. :namespace namespace; :job_id job id. Index: ..._of_job.
SELECT (SELECT count(*) FROM rota.upcoming_runs
         WHERE namespace = :namespace AND job_id = :job_id AND job_id <> id AND job_version < :version)
     + (SELECT count(*) FROM rota.held_runs
         WHERE namespace = :namespace AND job_id = :job_id AND job_id <> id AND job_version < :version)
     + (SELECT count(*) FROM rota.live_runs
         WHERE namespace = :namespace AND job_id = :job_id AND job_id <> id AND job_version < :version
           AND (worker_id IS NULL OR NOT recalled))
