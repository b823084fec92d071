-- How many runs wait in pools, ready or at a gate, counted up to the cap of each.
-- Index: none: walks what waits in the order of the tables, and no further than the caps.
-- Locks: none
SELECT i.namespace, i.pool,
       (SELECT count(*) FROM (SELECT FROM rota.live_runs AS l
                               WHERE l.namespace = i.namespace AND l.pool = i.pool AND l.worker_id IS NULL
                               LIMIT i.cap) AS first_ones)
     + (SELECT count(*) FROM (SELECT FROM rota.held_runs AS h
                               WHERE h.namespace = i.namespace AND h.pool = i.pool AND h.gate NOT IN ('pause', 'recall')
                               LIMIT i.cap) AS first_ones) AS waiting
  FROM unnest(:namespaces::text[], :pools::text[], :caps::bigint[]) AS i (namespace, pool, cap)
