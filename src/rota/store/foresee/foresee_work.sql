-- In how many seconds the services of a scheduler have something to do on these shards (null: nothing is known; negative:
-- it is late): `fires_in` the first schedule, `starts_in` the first upcoming run, `expires_in` the first run that may
-- expire. `is_recalled` and `is_held`: whether runs were recalled, and whether any wait at a gate of any shard.
-- It begins at the very beginning of each index, so it also finds what looks that begin at a position have missed.
-- Index: jobs_due, upcoming_runs_due, live_runs_expiring, held_runs_expiring and held_runs_gate: the first entry of each
-- shard; held_runs_waiting, its first entry.
-- Locks: none
WITH mine AS MATERIALIZED (SELECT unnest(:shards::smallint[]) AS shard),
     moment AS MATERIALIZED (SELECT clock_timestamp() AS present)
SELECT extract(epoch FROM
           (SELECT min(f.next_fire_at) FROM mine
             CROSS JOIN LATERAL (SELECT j.next_fire_at FROM rota.jobs AS j
                                  WHERE j.shard = mine.shard AND j.state = 'scheduled'
                                  ORDER BY j.next_fire_at LIMIT 1) AS f) - moment.present)::float8 AS fires_in,
       extract(epoch FROM
           (SELECT min(f.run_at) FROM mine
             CROSS JOIN LATERAL (SELECT u.run_at FROM rota.upcoming_runs AS u
                                  WHERE u.shard = mine.shard
                                  ORDER BY u.run_at LIMIT 1) AS f) - moment.present)::float8 AS starts_in,
       extract(epoch FROM least(
           (SELECT min(f.expires_at) FROM mine
             CROSS JOIN LATERAL (SELECT l.expires_at FROM rota.live_runs AS l
                                  WHERE l.shard = mine.shard AND l.expires_at IS NOT NULL
                                  ORDER BY l.expires_at LIMIT 1) AS f),
           (SELECT min(f.expires_at) FROM mine
             CROSS JOIN LATERAL (SELECT h.expires_at FROM rota.held_runs AS h
                                  WHERE h.shard = mine.shard AND h.expires_at IS NOT NULL
                                  ORDER BY h.expires_at LIMIT 1) AS f)) - moment.present)::float8 AS expires_in,
       EXISTS (SELECT FROM mine
                CROSS JOIN LATERAL (SELECT FROM rota.held_runs AS h
                                     WHERE h.gate = 'recall' AND h.shard = mine.shard LIMIT 1) AS f) AS is_recalled,
       EXISTS (SELECT FROM rota.held_runs AS h
                WHERE h.gate_key IS NOT NULL AND (h.namespace, h.gate, h.gate_key) > ('', '', '')) AS is_held
  FROM moment
