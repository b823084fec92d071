-- Runs that workers gave back because their job changed, with what the job says now; at most so many per shard.
-- Index: held_runs_gate; the primary key of jobs.
-- Locks: none
-- Idioms: OFFSET 0.
WITH leased AS MATERIALIZED (
    SELECT l.shard FROM unnest(:shards::smallint[], :epochs::bigint[]) AS mine (shard, epoch)
      JOIN rota.shard_leases AS l ON l.shard = mine.shard AND l.epoch = mine.epoch AND l.owner = :scheduler_id
)
SELECT r.namespace, r.id, r.job_id, r.cause, r.attempt, r.nominal_at, r.run_at, j.version, j.state, j.schedule_type,
       j.cron_expression, j.every_seconds, j.timezone, j.anchor_at, j.start_at, j.end_at, j.jitter_seconds, j.dst,
       j.misfire, clock_timestamp() AS database_time
  FROM leased
 CROSS JOIN LATERAL (
       SELECT * FROM rota.held_runs AS h
        WHERE h.gate = 'recall' AND h.shard = leased.shard ORDER BY h.run_at LIMIT :limit
       ) AS r
 CROSS JOIN LATERAL (SELECT * FROM rota.jobs AS j WHERE j.namespace = r.namespace AND j.id = r.job_id OFFSET 0) AS j
