-- A workflow run.
-- Index: primary key.
-- Locks: none
SELECT w.*, v.definition FROM rota.workflow_runs AS w
  JOIN rota.workflow_versions AS v
    ON v.namespace = w.namespace AND v.workflow_id = w.workflow_id AND v.version = w.version
 WHERE w.namespace = :namespace AND w.id = :flow
