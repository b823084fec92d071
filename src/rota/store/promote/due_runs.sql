-- The runs that promote would take, without taking them: asked only after a promotion failed on its data. Parameters as
-- there.
-- Index: upcoming_runs_due, one range per shard.
-- Locks: none
-- Idioms: from position.
WITH leased AS MATERIALIZED (
    SELECT l.shard, mine.begin_at
      FROM unnest(:shards::smallint[], :epochs::bigint[], :begin_at::float8[]) AS mine (shard, epoch, begin_at)
      JOIN rota.shard_leases AS l ON l.shard = mine.shard AND l.epoch = mine.epoch AND l.owner = :scheduler_id
)
SELECT r.namespace, r.id
  FROM leased
 CROSS JOIN LATERAL (
       SELECT u.namespace, u.id FROM rota.upcoming_runs AS u
        WHERE u.shard = leased.shard AND u.run_at >= least(to_timestamp(leased.begin_at), now() - interval '250 ms')
          AND u.run_at <= now() + :lookahead::interval
          AND (u.run_at > now() - :missed_after::interval OR u.cause <> 'schedule' OR u.attempt > 0 OR u.snoozes > 0)
        ORDER BY u.run_at
        LIMIT :limit
       ) AS r
 ORDER BY r.id
