-- Moves the position of a bulk cancel, in the transaction that cancels, if it is as it was read; else nothing.
-- Index: primary key.
-- Locks: the operation.
UPDATE rota.operations AS o
   SET position_id = :position, made = o.made + :made, ended = o.ended + :made, left_out = o.left_out + :left_out,
       is_made = :is_made, paced_to = :paced_to, revision = o.revision + 1, served_at = clock_timestamp()
 WHERE o.namespace = :namespace AND o.id = :operation AND o.revision = :revision AND o.state = 'running'
RETURNING o.id
