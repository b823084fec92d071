-- A few shards instead of 64: statements over all of them are faster, and the one scheduler shares them with no other.
-- Run once, after the migrations.
WITH few AS (
    UPDATE rota.constants SET shards = 4 RETURNING shards
)
DELETE FROM rota.shard_leases AS l USING few WHERE l.shard >= few.shards
