-- Takes shards that have no owner, or one that was seen dead, raising the epoch; a shard that changed hands since it
-- was seen at this epoch is left alone.
-- Index: primary key.
-- Locks: the shards' rows, FOR UPDATE SKIP LOCKED.
WITH free AS (
    SELECT l.shard FROM unnest(:shards::smallint[], :epochs::bigint[]) AS seen (shard, epoch)
      JOIN rota.shard_leases AS l ON l.shard = seen.shard AND l.epoch = seen.epoch
       FOR UPDATE OF l SKIP LOCKED
)
UPDATE rota.shard_leases AS l SET owner = :scheduler_id, epoch = l.epoch + 1
  FROM free WHERE l.shard = free.shard
RETURNING l.shard, l.epoch
