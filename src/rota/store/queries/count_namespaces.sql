-- How many runs wait in namespaces, counted up to the cap of each: ready or at a gate. $1 namespaces; $2 caps.
-- Walks what waits in the order of the tables, and no further than the caps.
SELECT i.namespace,
       (SELECT count(*) FROM (SELECT FROM rota.live_runs AS l
                               WHERE l.namespace = i.namespace AND l.worker_id IS NULL LIMIT i.cap) AS first_ones)
     + (SELECT count(*) FROM (SELECT FROM rota.held_runs AS h
                               WHERE h.namespace = i.namespace AND h.gate NOT IN ('pause', 'recall')
                               LIMIT i.cap) AS first_ones) AS waiting
  FROM unnest($1::text[], $2::bigint[]) AS i (namespace, cap)
