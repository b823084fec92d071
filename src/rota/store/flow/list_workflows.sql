-- Workflows by name, of an owner or all.
-- Index: workflows_by_name.
-- Locks: none
SELECT w.*, v.definition, v.number
  FROM rota.workflows AS w
  JOIN rota.workflow_versions AS v ON v.namespace = w.namespace AND v.workflow_id = w.id AND v.version = w.version
 WHERE w.namespace = :namespace AND w.state <> 'deleted' AND w.name > :after
   AND (:owner::text IS NULL OR w.owner = :owner)
 ORDER BY w.name
 LIMIT :limit
