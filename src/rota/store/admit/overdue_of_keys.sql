-- Runs with an ordering key that are due and were not promoted yet, because their shard has no owner at this moment or
-- its owner is behind; the oldest `limit` of each shard. No run of their key may overtake them. Those that the
-- misfire rules have yet to judge (as in promote) hold up no other run. `begin_at`: seconds since the epoch.
-- Index: upcoming_runs_due, one range per shard.
-- Locks: none
-- Idioms: from position.
WITH moment AS MATERIALIZED (SELECT clock_timestamp() AS present)
SELECT u.namespace, u.policies ->> 'order' AS key, u.id, u.nominal_at
  FROM moment
 CROSS JOIN rota.shard_leases AS s
 CROSS JOIN LATERAL (
       SELECT u.namespace, u.policies, u.id, u.nominal_at FROM rota.upcoming_runs AS u
        WHERE u.shard = s.shard AND u.run_at >= to_timestamp(:begin_at::float8) AND u.run_at <= moment.present
          AND (u.run_at > moment.present - :missed_after::interval OR u.cause <> 'schedule' OR u.attempt > 0
               OR u.snoozes > 0)
        ORDER BY u.run_at
        LIMIT :limit
       ) AS u
 WHERE (u.policies ->> 'order') IS NOT NULL
