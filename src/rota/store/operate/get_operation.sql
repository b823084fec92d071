-- An operation.
-- Index: primary key.
-- Locks: none
SELECT * FROM rota.operations AS o WHERE o.namespace = :namespace AND o.id = :operation
