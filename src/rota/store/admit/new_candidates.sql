-- Runs at a gate that nobody has looked at and that are due. :scheduler_id scheduler id; :shards shards with :epochs their epochs; :limit at most this
-- many per shard. Locks nothing: what is found is looked at again under the locks of its gates. Index: held_runs_gate.
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
