-- A scheduler that stops in good order leaves its shards to the others at once.
-- Index: none: small tables.
-- Locks: its rows.
WITH dropped AS (
    UPDATE rota.shard_leases SET owner = NULL, epoch = epoch + 1 WHERE owner = :scheduler_id
)
DELETE FROM rota.schedulers WHERE id = :scheduler_id
