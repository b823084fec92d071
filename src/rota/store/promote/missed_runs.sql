-- Runs made by a schedule that were not promoted in time, because everything was down; at most `limit` per shard, with
-- the job's schedule, for the misfire rules.
-- Index: upcoming_runs_due; the primary key of jobs.
-- Locks: none
-- Idioms: OFFSET 0.
WITH leased AS MATERIALIZED (
    SELECT l.shard FROM unnest(:shards::smallint[], :epochs::bigint[]) AS mine (shard, epoch)
      JOIN rota.shard_leases AS l ON l.shard = mine.shard AND l.epoch = mine.epoch AND l.owner = :scheduler_id
)
SELECT r.namespace, r.id, r.job_id, r.nominal_at, j.version, j.schedule_type, j.cron_expression, j.every_seconds,
       j.timezone, j.anchor_at, j.start_at, j.end_at, j.jitter_seconds, j.dst, j.misfire, j.excluded,
       j.fired_through, j.next_fire_at, clock_timestamp() AS database_time
  FROM leased
 CROSS JOIN LATERAL (
       SELECT u.namespace, u.id, u.job_id, u.nominal_at FROM rota.upcoming_runs AS u
        WHERE u.shard = leased.shard AND u.run_at <= now() - :missed_after::interval
          AND u.cause = 'schedule' AND u.attempt = 0 AND u.snoozes = 0
        ORDER BY u.run_at
        LIMIT :limit
       ) AS r
 CROSS JOIN LATERAL (SELECT * FROM rota.jobs AS j WHERE j.namespace = r.namespace AND j.id = r.job_id OFFSET 0) AS j
