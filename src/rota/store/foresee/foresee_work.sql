-- In how many seconds the services of a scheduler have something to do on these shards (null: nothing is known; negative:
-- it is late): `fires_in` the first schedule, `starts_in` the first upcoming run, `expires_in` the first run that may
-- expire, `conducts_in` the first workflow run. `is_recalled` and `is_held`: whether runs were recalled, and whether any wait
-- at a gate of any shard; `is_mapped`: whether members of maps are to be made; `is_operating`: whether operations are open.
-- It begins at the very beginning of each index, so it also finds what looks that begin at a position have missed.
-- Index: jobs_due, upcoming_runs_due, live_runs_expiring, held_runs_expiring and held_runs_gate: the first entry of each
-- shard; flow_notes_oldest, flow_waits_due, workflow_runs_deadline, workflow_runs_stopping, workflow_maps_failing,
-- workflow_maps_making, operations_open; held_runs_waiting, its first entry.
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
                WHERE h.gate_key IS NOT NULL AND (h.namespace, h.gate, h.gate_key) > ('', '', '')) AS is_held,
       CASE WHEN EXISTS (SELECT FROM rota.flow_notes AS n WHERE n.shard = ANY (:shards::smallint[]))
              OR EXISTS (SELECT FROM rota.workflow_runs AS w
                          WHERE w.shard = ANY (:shards::smallint[]) AND w.ended_at IS NULL AND w.stop IS NOT NULL
                            AND NOT w.is_swept)
              OR EXISTS (SELECT FROM rota.workflow_maps AS m
                          WHERE m.shard = ANY (:shards::smallint[]) AND m.is_failing AND NOT m.is_swept)
            THEN 0
            ELSE extract(epoch FROM least(
                (SELECT min(f.wakes_at) FROM mine
                  CROSS JOIN LATERAL (SELECT w.wakes_at FROM rota.flow_waits AS w
                                       WHERE w.shard = mine.shard AND w.wakes_at IS NOT NULL
                                       ORDER BY w.wakes_at LIMIT 1) AS f),
                (SELECT min(f.deadline_at) FROM mine
                  CROSS JOIN LATERAL (SELECT w.deadline_at FROM rota.workflow_runs AS w
                                       WHERE w.shard = mine.shard AND w.ended_at IS NULL
                                         AND (w.stop IS NULL OR w.stop = 'failure') AND w.deadline_at IS NOT NULL
                                       ORDER BY w.deadline_at LIMIT 1) AS f)) - moment.present)::float8
       END AS conducts_in,
       EXISTS (SELECT FROM rota.workflow_maps AS m
                 JOIN rota.workflow_nodes AS n
                   ON n.namespace = m.namespace AND n.flow = m.flow AND n.node = m.node AND n.state = 'open'
                WHERE m.shard = ANY (:shards::smallint[]) AND (m.is_redone OR NOT m.is_made) AND NOT m.is_failing) AS is_mapped,
       EXISTS (SELECT FROM rota.operations AS o
                WHERE o.shard = ANY (:shards::smallint[]) AND o.ended_at IS NULL) AS is_operating
  FROM moment
