-- The workflow run that another one is a part of, as it stays until the transaction ends: a stop comes before it, or sees
-- what it did. Nothing if another transaction holds it: callers hold the part, and must not wait for its parent.
-- Index: primary key.
-- Locks: the workflow run, FOR SHARE SKIP LOCKED.
SELECT w.namespace, w.workflow_id, w.version, w.stop, w.deadline_at
  FROM rota.workflow_runs AS w WHERE w.namespace = :namespace AND w.id = :flow
   FOR SHARE SKIP LOCKED
