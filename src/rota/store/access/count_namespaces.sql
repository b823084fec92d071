-- How many runs wait in namespaces, ready or at a gate, counted up to the cap of each.
-- Index: none: walks what waits in the order of the tables, and no further than the caps.
-- Locks: none
SELECT i.namespace,
       (SELECT count(*) FROM (SELECT FROM rota.live_runs AS l
                               WHERE l.namespace = i.namespace AND l.worker_id IS NULL LIMIT i.cap) AS first_ones)
     + (SELECT count(*) FROM (SELECT FROM rota.held_runs AS h
                               WHERE h.namespace = i.namespace AND h.gate NOT IN ('pause', 'recall')
                               LIMIT i.cap) AS first_ones) AS waiting
  FROM unnest(:namespaces::text[], :caps::bigint[]) AS i (namespace, cap)
