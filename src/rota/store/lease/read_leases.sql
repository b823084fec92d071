-- Who owns which shard, and how often each scheduler has beaten, in one snapshot.
-- Index: none: two small tables.
-- Locks: none
SELECT l.shard, l.owner, l.epoch, s.beat FROM rota.shard_leases AS l
  LEFT JOIN rota.schedulers AS s ON s.id = l.owner
UNION ALL
SELECT NULL, s.id, NULL, s.beat FROM rota.schedulers AS s
