-- Moves the position of a bulk cancel that is locked, in the transaction that cancels.
-- Index: primary key.
-- Locks: the operation.
UPDATE rota.operations AS o
   SET position_id = :position, made = o.made + :made, ended = o.ended + :made, left_out = o.left_out + :left_out,
       is_made = :is_made, paced_to = :paced_to, revision = o.revision + 1, served_at = clock_timestamp()
 WHERE o.namespace = :namespace AND o.id = :operation
RETURNING o.id
