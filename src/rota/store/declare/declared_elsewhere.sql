-- Another application whose code declares a workflow of this name.
-- Index: primary key.
-- Locks: none
SELECT d.app FROM rota.declared_workflows AS d
 WHERE d.namespace = :namespace AND d.name = :name AND d.app <> :app AND NOT d.paused_by_app LIMIT 1
