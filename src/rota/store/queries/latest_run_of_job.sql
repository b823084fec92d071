-- The latest run of a job that is due: of a one-shot itself or the last that was made of it, of a schedule the last
-- whose time has come. $1 namespace; $2 job id; $3 ids below this (now). Index: primary keys, and ..._of_job.
SELECT r.*, p.body AS large_payload, p.blob AS payload_blob
  FROM (
        (SELECT * FROM rota.runs WHERE namespace = $1 AND id = $2 AND job_id = id)
        UNION ALL
        (SELECT * FROM rota.runs WHERE namespace = $1 AND job_id = $2 AND job_id <> id AND id < $3
          ORDER BY id DESC LIMIT 1)
       ) AS r
  LEFT JOIN LATERAL (
       SELECT p.body, p.blob FROM rota.payloads AS p WHERE p.namespace = r.namespace AND p.id = r.payload_id OFFSET 0
       ) AS p ON true
 ORDER BY r.created_at DESC
 LIMIT 1
