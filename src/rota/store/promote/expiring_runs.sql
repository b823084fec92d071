-- The runs that expire_runs would skip, without skipping them: asked only after that failed on its data. Parameters as
-- there, without the reason.
-- Index: live_runs_expiring, held_runs_expiring.
-- Locks: none
SELECT r.id
  FROM unnest(:shards::smallint[], :epochs::bigint[]) AS mine (shard, epoch)
  JOIN rota.shard_leases AS lease ON lease.shard = mine.shard AND lease.epoch = mine.epoch
  AND lease.owner = :scheduler_id
 CROSS JOIN LATERAL (
       (SELECT l.id FROM rota.live_runs AS l
         WHERE l.shard = mine.shard AND l.claim IS NULL AND l.expires_at IS NOT NULL AND l.expires_at < now()
         ORDER BY l.expires_at LIMIT :limit)
       UNION ALL
       (SELECT h.id FROM rota.held_runs AS h
         WHERE h.shard = mine.shard AND h.expires_at IS NOT NULL AND h.expires_at < now()
         ORDER BY h.expires_at LIMIT :limit)
       ) AS r
