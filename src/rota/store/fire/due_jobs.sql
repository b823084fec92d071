-- Jobs whose next fire time is inside the horizon. Reads on-time jobs (at most `limit` per shard) and late ones
-- (`late_limit`) apart, so that catching up delays no schedule that is on time. `begin_at`: where to begin in each
-- shard (seconds since the epoch).
-- Index: jobs_due, two ranges per shard.
-- Locks: none: fire compares and sets.
-- Idioms: from position.
WITH leased AS MATERIALIZED (
    SELECT l.shard, mine.begin_at
      FROM unnest(:shards::smallint[], :epochs::bigint[], :begin_at::float8[]) AS mine (shard, epoch, begin_at)
      JOIN rota.shard_leases AS l ON l.shard = mine.shard AND l.epoch = mine.epoch AND l.owner = :scheduler_id
)
SELECT j.namespace, j.id, j.version, j.schedule_type, j.cron_expression, j.every_seconds, j.timezone, j.anchor_at,
       j.start_at, j.end_at, j.jitter_seconds, j.dst, j.misfire, j.excluded,
       j.next_fire_at, j.fired_through, clock_timestamp() AS database_time, j.shard, j.late,
       extract(epoch FROM least(j.next_fire_at, now()))::float8 AS reached
  FROM leased
 CROSS JOIN LATERAL (
       (SELECT *, false AS late FROM rota.jobs AS j
         WHERE j.shard = leased.shard AND j.state = 'scheduled'
           AND j.next_fire_at >= now() - :late_after::interval AND j.next_fire_at <= now() + :horizon::interval
         ORDER BY j.next_fire_at
         LIMIT :limit)
       UNION ALL
       (SELECT *, true FROM rota.jobs AS j
         WHERE j.shard = leased.shard AND j.state = 'scheduled'
           AND j.next_fire_at >= least(to_timestamp(leased.begin_at), now() - interval '250 ms')
           AND j.next_fire_at < now() - :late_after::interval
         ORDER BY j.next_fire_at
         LIMIT :late_limit)
       ) AS j
