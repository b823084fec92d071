-- An operation that is as it was read, held against other changes until the transaction ends. A statement of its own: what
-- follows sees the row as it is now, and never meets one that changed meanwhile.
-- Index: primary key.
-- Locks: the operation.
SELECT o.id FROM rota.operations AS o
 WHERE o.namespace = :namespace AND o.id = :operation AND o.revision = :revision AND o.state = 'running'
   AND NOT o.is_made
   FOR UPDATE
