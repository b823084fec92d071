-- A version of a workflow, and whose it is.
-- Index: primary keys.
-- Locks: none
SELECT v.definition, w.owner
  FROM rota.workflow_versions AS v
  JOIN rota.workflows AS w ON w.namespace = v.namespace AND w.id = v.workflow_id
 WHERE v.namespace = :namespace AND v.workflow_id = :workflow_id AND v.version = :version
