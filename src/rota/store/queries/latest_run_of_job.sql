-- The latest run of a job (a one-shot is its own first run). $1 namespace; $2 job id.
-- Index: primary keys, and ..._of_job.
SELECT r.*, p.body AS large_payload
  FROM (
        (SELECT * FROM rota.runs WHERE namespace = $1 AND id = $2 AND job_id = id)
        UNION ALL
        (SELECT * FROM rota.runs WHERE namespace = $1 AND job_id = $2 AND job_id <> id ORDER BY id DESC LIMIT 1)
       ) AS r
  LEFT JOIN rota.payloads AS p ON p.namespace = r.namespace AND p.id = r.payload_id
 ORDER BY r.id DESC
 LIMIT 1
