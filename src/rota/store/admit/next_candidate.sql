-- Whether admission has something to do now (a run left its place, a run is due that was not looked at, or a gate's
-- moment has come), and in how many seconds the next known moment comes (null: none is known). Another
-- transaction may hold what is due now, so the next moment does not include it.
-- Index: departures_oldest, held_runs_gate, gates_waking.
-- Locks: none
-- Idioms: from position.
WITH moment AS MATERIALIZED (SELECT clock_timestamp() AS present),
     arrivals (gate) AS (VALUES ('new'), ('dependent'))
SELECT EXISTS (SELECT FROM rota.departures WHERE left_at >= to_timestamp(:begin_at::float8))
       OR EXISTS (SELECT FROM rota.gates WHERE wakes_at <= moment.present)
       OR EXISTS (SELECT FROM unnest(:shards::smallint[]) AS mine (shard) CROSS JOIN arrivals
                   CROSS JOIN LATERAL (SELECT h.run_at FROM rota.held_runs AS h
                                        WHERE h.gate = arrivals.gate AND h.shard = mine.shard AND h.run_at <= moment.present
                                          AND h.gate_key IS NULL
                                        ORDER BY h.run_at LIMIT 1) AS r) AS is_due,
       extract(epoch FROM least(
           (SELECT min(r.run_at)
              FROM unnest(:shards::smallint[]) AS mine (shard) CROSS JOIN arrivals
             CROSS JOIN LATERAL (SELECT h.run_at FROM rota.held_runs AS h
                                  WHERE h.gate = arrivals.gate AND h.shard = mine.shard AND h.run_at > moment.present
                                  ORDER BY h.run_at LIMIT 1) AS r),
           (SELECT wakes_at FROM rota.gates WHERE wakes_at > moment.present ORDER BY wakes_at LIMIT 1)
       ) - moment.present)::float8 AS next_in
  FROM moment
