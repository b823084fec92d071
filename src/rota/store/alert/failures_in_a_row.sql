-- Of these jobs, those whose last runs that succeeded or failed, `times` of them, have all failed; in the history from an
-- id on.
-- Index: finished_runs_of_job.
-- Locks: none
-- Plan: custom
SELECT i.namespace, i.job_id
  FROM unnest(:namespaces::text[], :job_ids::uuid[]) AS i (namespace, job_id)
 CROSS JOIN LATERAL (
       SELECT count(*) AS ended, count(*) FILTER (WHERE l.status = 'failed') AS failed
         FROM (SELECT f.status FROM rota.finished_runs AS f
                WHERE f.namespace = i.namespace AND f.job_id = i.job_id AND f.job_id <> f.id AND f.id >= :first
                  AND f.status IN ('success', 'failed')
                ORDER BY f.id DESC LIMIT :times) AS l) AS ends
 WHERE ends.ended = :times AND ends.failed = :times
