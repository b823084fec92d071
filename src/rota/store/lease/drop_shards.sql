-- Lets go of shards: more than a fair share, or stopping. :scheduler_id owner; :shards shards. Index: primary key.
UPDATE rota.shard_leases SET owner = NULL, epoch = epoch + 1
 WHERE owner = :scheduler_id AND shard = ANY (:shards::smallint[])
RETURNING shard
