-- How runs stand that others depend on: of each the run itself, or the newest retry of it. Retries are looked for only
-- where the run did not succeed, among the runs that its job has made since.
-- Index: primary keys, upcoming_runs_of_job, held_runs_of_job, live_runs_of_job, finished_runs_of_job.
-- Locks: none
-- Idioms: OFFSET 0, computed apart for rls.
SELECT i.namespace, i.job_id, i.run_id AS asked_for, newest.id, newest.status, own.owner, own.options
  FROM unnest(:namespaces::text[], :job_ids::uuid[], :run_ids::uuid[]) AS i (namespace, job_id, run_id)
 CROSS JOIN LATERAL (
       SELECT r.id, r.status, r.place, r.owner, r.options, r.created_at, least(r.id, rota.id_floor(r.created_at)) AS first
         FROM rota.runs AS r
        WHERE r.namespace = i.namespace AND r.id = i.run_id AND r.job_id = i.job_id
       OFFSET 0
       ) AS own
 CROSS JOIN LATERAL (
       SELECT own.id, own.status, own.created_at
       UNION ALL
       (SELECT o.id, o.status, o.created_at FROM rota.open_runs AS o
         WHERE o.namespace = i.namespace AND o.job_id = i.job_id AND o.job_id <> o.id AND o.root_id = i.run_id
           AND own.place = 'finished' AND own.status <> 'success'
        OFFSET 0)
       UNION ALL
       (SELECT f.id, f.status, f.created_at FROM rota.finished_runs AS f
         WHERE f.namespace = i.namespace AND f.job_id = i.job_id AND f.job_id <> f.id AND f.id >= own.first
           AND f.root_id = i.run_id AND own.place = 'finished' AND own.status <> 'success'
        OFFSET 0)
       ORDER BY created_at DESC, id DESC
       LIMIT 1
       ) AS newest
