-- How many operations of these shards have not ended.
-- Index: operations_open.
-- Locks: none
SELECT count(*) FROM rota.operations AS o WHERE o.shard = ANY (:shards::smallint[]) AND o.ended_at IS NULL
