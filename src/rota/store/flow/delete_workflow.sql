-- Deletes a workflow: it opens no more runs. Those that are open are stopped by the caller.
-- Index: primary key.
-- Locks: the workflow.
UPDATE rota.workflows AS w SET state = 'deleted', revision = w.revision + 1, changed_at = now()
 WHERE w.namespace = :namespace AND w.id = :workflow_id AND w.state <> 'deleted'
RETURNING w.id, w.job_id
