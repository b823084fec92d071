-- Gives up shards: more than a fair share, or stopping.
-- Index: primary key.
-- Locks: the shards' rows.
UPDATE rota.shard_leases SET owner = NULL, epoch = epoch + 1
 WHERE owner = :scheduler_id AND shard = ANY (:shards::smallint[])
RETURNING shard
