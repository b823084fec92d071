-- When the workflow run that another one is a part of must have ended.
-- Index: primary key.
-- Locks: none
SELECT w.deadline_at FROM rota.workflow_runs AS w WHERE w.namespace = :namespace AND w.id = :flow
