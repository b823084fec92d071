-- In how many seconds admission has something to do, at once (0 or less) where somebody left or is due: the next run that nobody
-- has looked at, the moment of a gate. Null: nothing is known. :shards shards; :begin_at where to begin in the departures (seconds since
-- the epoch). Index: departures_oldest, held_runs_gate, gates_waking.
SELECT CASE WHEN EXISTS (SELECT FROM rota.departures WHERE left_at >= to_timestamp(:begin_at::float8)) THEN 0
            ELSE extract(epoch FROM least(
                     (SELECT min(r.run_at)
                        FROM unnest(:shards::smallint[]) AS mine (shard)
                       CROSS JOIN LATERAL (SELECT h.run_at FROM rota.held_runs AS h
                                            WHERE h.gate = 'new' AND h.shard = mine.shard ORDER BY h.run_at LIMIT 1) AS r),
                     (SELECT wakes_at FROM rota.gates WHERE wakes_at IS NOT NULL ORDER BY wakes_at LIMIT 1)
                 ) - clock_timestamp()) END::float8
