-- Lets go of shards: more than a fair share, or stopping. $1 owner; $2 shards. Index: primary key.
UPDATE rota.shard_leases SET owner = NULL, epoch = epoch + 1
 WHERE owner = $1 AND shard = ANY ($2::smallint[])
RETURNING shard
