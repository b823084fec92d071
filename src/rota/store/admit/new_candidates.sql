-- Runs at a gate that admission has not looked at and that are due, at most so many per shard. What is found is looked
-- at again under the locks of its gates.
-- Index: held_runs_gate.
-- Locks: none
WITH leased AS MATERIALIZED (
    SELECT l.shard FROM unnest(:shards::smallint[], :epochs::bigint[]) AS mine (shard, epoch)
      JOIN rota.shard_leases AS l ON l.shard = mine.shard AND l.epoch = mine.epoch AND l.owner = :scheduler_id
)
SELECT r.namespace, r.id, r.job_id, r.policies, r.run_at
  FROM leased
 CROSS JOIN LATERAL (
       SELECT h.namespace, h.id, h.job_id, h.policies, h.run_at FROM rota.held_runs AS h
        WHERE h.gate = 'new' AND h.shard = leased.shard AND h.run_at <= now()
        ORDER BY h.run_at
        LIMIT :limit
       ) AS r
