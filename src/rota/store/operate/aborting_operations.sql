-- Operations of these shards that are being aborted and have runs that have not ended.
-- Index: operations_open.
-- Locks: none
SELECT o.namespace, o.id, o.kind FROM rota.operations AS o
 WHERE o.shard = ANY (:shards::smallint[]) AND o.ended_at IS NULL AND o.state = 'aborting' AND o.made > o.ended
 ORDER BY o.served_at
 LIMIT :limit
