-- The first runs at each of these gates, at most `rooms` per gate. The caller holds the locks of these gates, so that
-- no run is on its way to them.
-- Index: held_runs_waiting.
-- Locks: none
SELECT r.namespace, r.id, r.job_id, r.policies, g.kind, g.key
  FROM unnest(:namespaces::text[], :kinds::text[], :keys::text[], :rooms::integer[]) AS g (namespace, kind, key, room)
 CROSS JOIN LATERAL (
       SELECT h.namespace, h.id, h.job_id, h.policies FROM rota.held_runs AS h
        WHERE h.namespace = g.namespace AND h.gate = g.kind AND h.gate_key = g.key
        ORDER BY h.nominal_at, h.id
        LIMIT g.room
       ) AS r
