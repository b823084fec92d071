-- Ends operations of these shards whose runs have all ended, if there is nothing left to make.
-- Index: operations_open.
-- Locks: the operations.
UPDATE rota.operations AS o
   SET state = CASE WHEN o.state = 'aborting' THEN 'aborted' ELSE 'completed' END, ended_at = now(), changed_at = now(),
       revision = o.revision + 1
 WHERE o.shard = ANY (:shards::smallint[]) AND o.ended_at IS NULL AND o.made = o.ended
   AND (o.is_made OR o.state = 'aborting')
RETURNING o.id
