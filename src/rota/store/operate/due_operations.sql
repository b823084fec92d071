-- Operations of these shards that have room for more runs, those first that were served longest ago.
-- Index: operations_open.
-- Locks: none
SELECT o.*, clock_timestamp() AS database_time FROM rota.operations AS o
 WHERE o.shard = ANY (:shards::smallint[]) AND o.ended_at IS NULL AND o.state = 'running' AND NOT o.is_made
   AND o.made - o.ended < o.concurrency AND (o.rate IS NULL OR o.paced_to IS NULL
                                             OR o.paced_to <= clock_timestamp() - interval '1 second' / o.rate)
 ORDER BY o.served_at
 LIMIT :limit
