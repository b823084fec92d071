-- Due runs at a gate that admission has not looked at, at most `limit` per shard and gate, locked until the transaction ends.
-- Skips runs that another transaction holds or that were set aside (`gate_key` says why), so that they don't block
-- those behind them. Runs that depend on other jobs come to a gate of their own ('dependent', await_others.sql).
-- Index: held_runs_gate.
-- Locks: the runs, FOR UPDATE SKIP LOCKED.
WITH leased AS MATERIALIZED (
    SELECT l.shard FROM unnest(:shards::smallint[], :epochs::bigint[]) AS mine (shard, epoch)
      JOIN rota.shard_leases AS l ON l.shard = mine.shard AND l.epoch = mine.epoch AND l.owner = :scheduler_id
)
SELECT r.namespace, r.id, r.job_id, r.policies, r.run_at
  FROM leased
 CROSS JOIN (VALUES ('new'), ('dependent')) AS arrival (gate)
 CROSS JOIN LATERAL (
       SELECT h.namespace, h.id, h.job_id, h.policies, h.run_at FROM rota.held_runs AS h
        WHERE h.gate = arrival.gate AND h.shard = leased.shard AND h.run_at <= now() AND h.gate_key IS NULL
        ORDER BY h.run_at
        LIMIT :limit
          FOR UPDATE SKIP LOCKED
       ) AS r
