-- A workflow run.
-- Index: primary key.
-- Locks: none
-- Idioms: OFFSET 0.
SELECT w.*, v.definition, coalesce(w.payload, p.body) AS inputs FROM rota.workflow_runs AS w
  JOIN rota.workflow_versions AS v
    ON v.namespace = w.namespace AND v.workflow_id = w.workflow_id AND v.version = w.version
  LEFT JOIN LATERAL (
       SELECT p.body FROM rota.payloads AS p WHERE p.namespace = w.namespace AND p.id = w.payload_id OFFSET 0
       ) AS p ON true
 WHERE w.namespace = :namespace AND w.id = :flow
