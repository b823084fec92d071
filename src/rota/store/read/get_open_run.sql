-- A run that has not ended, with its large payload.
-- Index: primary keys.
-- Locks: none
-- Idioms: OFFSET 0.
SELECT r.*, p.body AS large_payload, p.blob AS payload_blob, now() AS database_time
  FROM rota.open_runs AS r
  LEFT JOIN LATERAL (
       SELECT p.body, p.blob FROM rota.payloads AS p WHERE p.namespace = r.namespace AND p.id = r.payload_id OFFSET 0
       ) AS p ON true
 WHERE r.namespace = :namespace AND r.id = :run_id
