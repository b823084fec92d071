-- When a workflow run must have ended.
-- Index: primary key.
-- Locks: none
SELECT w.deadline_at FROM rota.workflow_runs AS w WHERE w.namespace = :namespace AND w.id = :flow
