-- Who owns which shard.
-- Index: none: two small tables.
-- Locks: none
SELECT l.shard, l.epoch, l.owner, s.host, s.pid, s.beat_at
  FROM rota.shard_leases AS l LEFT JOIN rota.schedulers AS s ON s.id = l.owner
 ORDER BY l.shard
