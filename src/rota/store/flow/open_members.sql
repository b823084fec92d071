-- Members of a map that have not ended, by their ids, from behind one on.
-- Index: upcoming_runs_of_job, held_runs_of_job, live_runs_of_job, workflow_runs_of_job.
-- Locks: none
-- Idioms: OFFSET 0.
SELECT r.id, r.status, (r.options::jsonb ->> 'item')::integer AS item
  FROM (SELECT * FROM rota.open_runs AS o
         WHERE o.namespace = :namespace AND o.job_id = :flow AND o.job_version = :node AND o.cause = 'member' OFFSET 0) AS r
 WHERE r.id > :after::uuid
 ORDER BY r.id LIMIT :limit
