-- Keeps the definitions of nodes that nodes added, as versions without a number.
-- Index: primary key.
-- Locks: none
INSERT INTO rota.workflow_versions (namespace, workflow_id, version, number, definition, created_by)
SELECT i.namespace, i.workflow_id, i.version, 0, i.definition, i.created_by
  FROM unnest(:namespaces::text[], :workflow_ids::uuid[], :versions::text[], :definitions::text[], :created_by::text[])
       AS i (namespace, workflow_id, version, definition, created_by)
ON CONFLICT (namespace, workflow_id, version) DO NOTHING
