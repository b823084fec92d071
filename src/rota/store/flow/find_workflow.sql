-- A workflow with its current definition, by id or by name.
-- Index: primary key, workflows_by_name.
-- Locks: none
SELECT w.*, v.definition, v.number
  FROM rota.workflows AS w
  JOIN rota.workflow_versions AS v ON v.namespace = w.namespace AND v.workflow_id = w.id AND v.version = w.version
 WHERE w.namespace = :namespace
   AND (w.id = :workflow_id::uuid OR (:workflow_id::uuid IS NULL AND w.name = :name AND w.state <> 'deleted'))
