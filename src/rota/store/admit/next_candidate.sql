-- In how many seconds admission has something to do (0 or less: now): a run left its place, a run is due that was not
-- looked at, or a gate's moment comes. Null: nothing is known.
-- Index: departures_oldest, held_runs_gate, gates_waking.
-- Locks: none
-- Idioms: from position.
SELECT CASE WHEN EXISTS (SELECT FROM rota.departures WHERE left_at >= to_timestamp(:begin_at::float8)) THEN 0
            ELSE extract(epoch FROM least(
                     (SELECT min(r.run_at)
                        FROM unnest(:shards::smallint[]) AS mine (shard)
                       CROSS JOIN LATERAL (SELECT h.run_at FROM rota.held_runs AS h
                                            WHERE h.gate = 'new' AND h.shard = mine.shard ORDER BY h.run_at
                                            LIMIT 1) AS r),
                     (SELECT wakes_at FROM rota.gates WHERE wakes_at IS NOT NULL ORDER BY wakes_at LIMIT 1)
                 ) - clock_timestamp()) END::float8
