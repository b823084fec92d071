-- Promotes runs that are due within the lookahead: upcoming -> live, or held if they have policies; at most `limit`
-- per shard. A schedule's run that is later than `missed_after` is left to the misfire rules. `begin_at`: where to
-- begin in each shard (seconds since the epoch). Returns how many runs went to each pool from each shard, and how far
-- that shard is now empty. Skips a shard whose lease has a newer epoch. Even two owners are safe: a row moves once.
-- Index: upcoming_runs_due, one range per shard.
-- Locks: the runs, FOR UPDATE SKIP LOCKED.
-- Idioms: ctid, from position.
WITH leased AS MATERIALIZED (
    SELECT l.shard, mine.begin_at
      FROM unnest(:shards::smallint[], :epochs::bigint[], :begin_at::float8[]) AS mine (shard, epoch, begin_at)
      JOIN rota.shard_leases AS l ON l.shard = mine.shard AND l.epoch = mine.epoch AND l.owner = :scheduler_id
), due AS MATERIALIZED (
    SELECT r.place
      FROM leased
     CROSS JOIN LATERAL (
           SELECT u.ctid AS place FROM rota.upcoming_runs AS u
            WHERE u.shard = leased.shard AND u.run_at >= least(to_timestamp(leased.begin_at), now() - interval '250 ms')
              AND u.run_at <= now() + :lookahead::interval
              AND (u.run_at > now() - :missed_after::interval OR u.cause <> 'schedule' OR u.attempt > 0
                   OR u.snoozes > 0)
            ORDER BY u.run_at
            LIMIT :limit
              FOR UPDATE SKIP LOCKED
           ) AS r
), taken AS (
    DELETE FROM rota.upcoming_runs AS u WHERE u.ctid = ANY (ARRAY(SELECT place FROM due))
    RETURNING {u.run}
), ready AS (
    INSERT INTO rota.live_runs ({run}, lane, ready_at)
    SELECT {run}, rota.lane_of(namespace, pool, task, priority), greatest(run_at, now()) FROM taken
     WHERE policies IS NULL
), gated AS (
    INSERT INTO rota.held_runs ({run}, gate) SELECT {run}, 'new' FROM taken WHERE policies IS NOT NULL
)
SELECT pool, shard, count(*) AS runs, bool_or(policies IS NOT NULL) AS gated,
       extract(epoch FROM least(max(run_at), now()))::float8 AS reached FROM taken GROUP BY pool, shard
