-- A workflow run, ours until the transaction ends.
-- Index: primary key.
-- Locks: the workflow run.
SELECT w.*, extract(epoch FROM clock_timestamp())::float8 AS database_time
  FROM rota.workflow_runs AS w WHERE w.namespace = :namespace AND w.id = :flow FOR UPDATE
