-- Takes shards from nobody or from owners seen dead, raising the epoch. :scheduler_id new owner; :shards shards with :epochs the epochs they
-- were seen at: one that changed hands meanwhile is left alone. Locks SKIP LOCKED. Index: primary key.
WITH free AS (
    SELECT l.shard FROM unnest(:shards::smallint[], :epochs::bigint[]) AS seen (shard, epoch)
      JOIN rota.shard_leases AS l ON l.shard = seen.shard AND l.epoch = seen.epoch
       FOR UPDATE OF l SKIP LOCKED
)
UPDATE rota.shard_leases AS l SET owner = :scheduler_id, epoch = l.epoch + 1
  FROM free WHERE l.shard = free.shard
RETURNING l.shard, l.epoch
