-- The retention policies of all namespaces.
-- Index: none; reads a small table.
-- Locks: none
SELECT namespace, policy::text AS policy, changed_by, changed_at FROM rota.retention
