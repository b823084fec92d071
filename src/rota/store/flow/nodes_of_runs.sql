-- Which of these runs belong to nodes of workflow runs, and to which.
-- Index: primary key of finished_runs (pruned by id).
-- Locks: none
-- Idioms: by_id.
SELECT f.id, f.job_id AS flow, f.job_version AS node, f.cause, (f.options::jsonb ->> 'item')::integer AS item
  FROM rota.finished_runs AS f
 WHERE rota.by_id(f.namespace) = :namespace AND f.id = ANY (:run_ids::uuid[]) AND f.cause IN ('node', 'member')
