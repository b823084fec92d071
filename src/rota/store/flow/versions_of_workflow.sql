-- The versions of a workflow, newest first.
-- Index: primary key.
-- Locks: none
SELECT v.* FROM rota.workflow_versions AS v
 WHERE v.namespace = :namespace AND v.workflow_id = :workflow_id AND v.number > 0 ORDER BY v.number DESC LIMIT :limit
