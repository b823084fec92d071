-- A page of a period's runs of recurring jobs, and other runs that share a job, job by job.
-- Index: finished_runs_of_job, one day of it.
-- Locks: none
-- Plan: custom
-- Idioms: OFFSET 0.
SELECT {r.run}, r.status, r.started_at, r.finished_at, r.worker_id, r.claim, r.progress, r.progress_note,
       r.cancel_requested, r.error, r.traceback, r.result, r.reason, r.result_blob, p.body AS large_payload,
       p.blob AS payload_blob
  FROM rota.finished_runs AS r
  LEFT JOIN LATERAL (
       SELECT p.body, p.blob FROM rota.payloads AS p WHERE p.namespace = r.namespace AND p.id = r.payload_id OFFSET 0
       ) AS p ON true
 WHERE r.id >= :first AND r.id < :before AND r.job_id <> r.id
   AND (r.namespace, r.job_id, r.id) > (:after_namespace, :after_job, :after_id)
 ORDER BY r.namespace, r.job_id, r.id
 LIMIT :limit
