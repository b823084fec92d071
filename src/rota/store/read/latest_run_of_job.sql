-- The latest run of a job that is due: of a one-shot itself or the last that was made of it, of a schedule the last
-- whose time has come (ids below `before`).
-- Index: primary keys, upcoming_runs_of_job, live_runs_of_job, held_runs_of_job, finished_runs_of_job.
-- Locks: none
-- Idioms: OFFSET 0.
SELECT r.*, p.body AS large_payload, p.blob AS payload_blob
  FROM (
        (SELECT * FROM rota.runs WHERE namespace = :namespace AND id = :job_id AND job_id = id)
        UNION ALL
        (SELECT * FROM rota.runs WHERE namespace = :namespace AND job_id = :job_id AND job_id <> id AND id < :before
          ORDER BY id DESC LIMIT 1)
       ) AS r
  LEFT JOIN LATERAL (
       SELECT p.body, p.blob FROM rota.payloads AS p WHERE p.namespace = r.namespace AND p.id = r.payload_id OFFSET 0
       ) AS p ON true
 ORDER BY r.created_at DESC
 LIMIT 1
