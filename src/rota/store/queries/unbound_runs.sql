-- How many runs of a recurring job are neither bound to its version $3 nor recalled. One statement, one snapshot: a
-- run is in exactly one place in it, so 0 means there is none. $1 namespace; $2 job id. Index: ..._of_job.
SELECT (SELECT count(*) FROM rota.upcoming_runs
         WHERE namespace = $1 AND job_id = $2 AND job_id <> id AND job_version < $3)
     + (SELECT count(*) FROM rota.held_runs
         WHERE namespace = $1 AND job_id = $2 AND job_id <> id AND job_version < $3)
     + (SELECT count(*) FROM rota.live_runs
         WHERE namespace = $1 AND job_id = $2 AND job_id <> id AND job_version < $3
           AND (worker_id IS NULL OR NOT recalled))
