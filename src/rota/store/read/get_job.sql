-- A recurring job, with its large payload.
-- Index: primary key.
-- Locks: none
-- Idioms: OFFSET 0.
SELECT j.*, p.body AS large_payload, p.blob AS payload_blob
  FROM rota.jobs AS j
  LEFT JOIN LATERAL (
       SELECT p.body, p.blob FROM rota.payloads AS p WHERE p.namespace = j.namespace AND p.id = j.payload_id OFFSET 0
       ) AS p ON true
 WHERE j.namespace = :namespace AND j.id = :job_id
