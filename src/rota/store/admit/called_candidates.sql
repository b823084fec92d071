-- The first runs at each of these gates, at most `rooms` per gate. The caller holds the locks of these gates, so that
-- no run is on its way to them. Limits, rates, breakers and dependencies keep no strict order: there the first runs that no other
-- transaction holds (`free`) are found as well, so that runs which are held don't hide those behind them.
-- Index: held_runs_waiting.
-- Locks: the runs that are free, FOR UPDATE SKIP LOCKED.
SELECT r.namespace, r.id, r.job_id, r.policies, g.kind, g.key, r.free
  FROM unnest(:namespaces::text[], :kinds::text[], :keys::text[], :rooms::integer[]) AS g (namespace, kind, key, room)
 CROSS JOIN LATERAL (
       SELECT * FROM (
           SELECT h.namespace, h.id, h.job_id, h.policies, true AS free FROM rota.held_runs AS h
            WHERE h.namespace = g.namespace AND h.gate = g.kind AND h.gate_key = g.key
              AND g.kind IN ('limit', 'rate', 'breaker', 'dependency')
            ORDER BY h.nominal_at, h.id
            LIMIT g.room
              FOR UPDATE SKIP LOCKED
           ) AS unheld
       UNION ALL
       (SELECT h.namespace, h.id, h.job_id, h.policies, g.kind IN ('order', 'overlap') FROM rota.held_runs AS h
         WHERE h.namespace = g.namespace AND h.gate = g.kind AND h.gate_key = g.key
         ORDER BY h.nominal_at, h.id
         LIMIT g.room)
       ) AS r
