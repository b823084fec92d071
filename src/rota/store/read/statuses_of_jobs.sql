-- Of several jobs, what their status needs: the latest run that is due (of a one-shot itself or the last that was made of
-- it, of a schedule the last whose time has come, ids below `before`), and the state of a recurring job. One row for each
-- job that exists.
-- Index: primary keys, upcoming_runs_of_job, live_runs_of_job, held_runs_of_job, finished_runs_of_job.
-- Locks: none
-- Idioms: OFFSET 0 (open runs of a job are few and found by their index, never by walking all ids backwards).
SELECT i.namespace, i.job_id AS asked_for, j.state, coalesce(j.options, r.run_options) AS options, r.*
  FROM unnest(:namespaces::text[], :job_ids::uuid[]) AS i (namespace, job_id)
  LEFT JOIN LATERAL (
       SELECT j.state, j.options FROM rota.jobs AS j WHERE j.namespace = i.namespace AND j.id = i.job_id OFFSET 0
       ) AS j ON true
  LEFT JOIN LATERAL (
       SELECT *
         FROM (
               (SELECT r.id, r.job_id, r.status, r.started_at, r.finished_at, r.progress, r.worker_id, r.attempt,
                       r.error, r.created_at, r.options AS run_options
                  FROM rota.runs AS r
                 WHERE r.namespace = i.namespace AND r.id = i.job_id
                   AND (r.job_id = r.id OR r.cause IN ('node', 'member')))
               UNION ALL
               (SELECT *
                  FROM (
                        (SELECT r.id, r.job_id, r.status, r.started_at, r.finished_at, r.progress, r.worker_id,
                                r.attempt, r.error, r.created_at, r.options
                           FROM rota.open_runs AS r
                          WHERE r.namespace = i.namespace AND r.job_id = i.job_id AND r.job_id <> r.id
                            AND r.id < :before OFFSET 0)
                        UNION ALL
                        (SELECT f.id, f.job_id, f.status, f.started_at, f.finished_at, f.progress, f.worker_id,
                                f.attempt, f.error, f.created_at, f.options
                           FROM rota.finished_runs AS f
                          WHERE f.namespace = i.namespace AND f.job_id = i.job_id AND f.job_id <> f.id
                            AND f.id < :before
                          ORDER BY f.id DESC LIMIT 1)
                       ) AS others
                 ORDER BY others.id DESC LIMIT 1)
              ) AS found
        ORDER BY found.created_at DESC
        LIMIT 1
       ) AS r ON true
 WHERE j.state IS NOT NULL OR r.id IS NOT NULL
