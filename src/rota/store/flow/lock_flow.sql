-- A workflow run, ours until the transaction ends. Whoever writes rows of its nodes, maps and members does this first, in a
-- statement of its own: a row of a partitioned table that another transaction changed meanwhile is then never met. (To meet
-- one ends the server's process in PostgreSQL 18.4, where it is looked at again.)
-- Index: primary key.
-- Locks: the workflow run.
SELECT w.*, extract(epoch FROM clock_timestamp())::float8 AS database_time
  FROM rota.workflow_runs AS w WHERE w.namespace = :namespace AND w.id = :flow FOR UPDATE
