-- The operations of a namespace that have not ended.
-- Index: operations_open_of.
-- Locks: none
SELECT o.id, o.kind, o.job_id FROM rota.operations AS o WHERE o.namespace = :namespace AND o.ended_at IS NULL
