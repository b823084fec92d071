-- The waits of a workflow run that have not ended.
-- Index: primary key.
-- Locks: none
SELECT w.* FROM rota.flow_waits AS w WHERE w.namespace = :namespace AND w.flow = :flow
