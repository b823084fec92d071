-- In how many seconds the next run that nobody has looked at is due, or the moment of a gate comes. $1 shards.
-- Index: held_runs_gate, gates_waking.
SELECT extract(epoch FROM least(min(r.run_at), (SELECT wakes_at FROM rota.gates WHERE wakes_at IS NOT NULL
                                                 ORDER BY wakes_at LIMIT 1)) - clock_timestamp())::float8
  FROM unnest($1::smallint[]) AS mine (shard)
 CROSS JOIN LATERAL (
       SELECT h.run_at FROM rota.held_runs AS h WHERE h.gate = 'new' AND h.shard = mine.shard ORDER BY h.run_at LIMIT 1
       ) AS r
