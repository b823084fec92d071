-- A run that has ended, as the view of runs shows it, with its large payload.
-- Index: primary keys, one day of history.
-- Locks: none
-- Plan: custom
-- Idioms: OFFSET 0.
SELECT r.*, 'finished' AS place, NULL::text AS gate, NULL::text AS gate_key, p.body AS large_payload,
       p.blob AS payload_blob, now() AS database_time
  FROM rota.finished_runs AS r
  LEFT JOIN LATERAL (
       SELECT p.body, p.blob FROM rota.payloads AS p WHERE p.namespace = r.namespace AND p.id = r.payload_id OFFSET 0
       ) AS p ON true
 WHERE r.namespace = :namespace AND r.id = :run_id
