-- A scheduler that stops in good order leaves its shards to the others at once. $1 id.
WITH dropped AS (
    UPDATE rota.shard_leases SET owner = NULL, epoch = epoch + 1 WHERE owner = $1
)
DELETE FROM rota.schedulers WHERE id = $1
