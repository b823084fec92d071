-- Runs that workers gave back because their job changed, with the job's current version; at most `limit` per shard.
-- `started`: whether the run was ever started, also if that attempt was not charged.
-- Index: held_runs_gate; the primary keys of jobs and attempts.
-- Locks: none
-- Idioms: OFFSET 0.
WITH leased AS MATERIALIZED (
    SELECT l.shard FROM unnest(:shards::smallint[], :epochs::bigint[]) AS mine (shard, epoch)
      JOIN rota.shard_leases AS l ON l.shard = mine.shard AND l.epoch = mine.epoch AND l.owner = :scheduler_id
)
SELECT r.namespace, r.id, r.job_id, r.cause, r.nominal_at, j.version, j.state, j.schedule_type, j.cron_expression,
       j.every_seconds, j.timezone, j.anchor_at, j.start_at, j.end_at, j.jitter_seconds, j.dst, j.misfire, j.excluded,
       clock_timestamp() AS database_time,
       r.attempt > 0 OR r.losses > 0 OR r.snoozes > 0 OR r.checkpoint IS NOT NULL
       OR EXISTS (SELECT FROM rota.attempts AS a WHERE a.namespace = r.namespace AND a.run_id = r.id OFFSET 0)
           AS started
  FROM leased
 CROSS JOIN LATERAL (
       SELECT * FROM rota.held_runs AS h
        WHERE h.gate = 'recall' AND h.shard = leased.shard ORDER BY h.run_at LIMIT :limit
       ) AS r
 CROSS JOIN LATERAL (SELECT * FROM rota.jobs AS j WHERE j.namespace = r.namespace AND j.id = r.job_id OFFSET 0) AS j
