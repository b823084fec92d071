-- A bulk cancel that is as it was read, held against other changes until the transaction ends.
-- Index: primary key.
-- Locks: the operation.
SELECT o.id FROM rota.operations AS o
 WHERE o.namespace = :namespace AND o.id = :operation AND o.revision = :revision AND o.state = 'running'
   FOR UPDATE
