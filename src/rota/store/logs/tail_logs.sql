-- What several runs wrote after a position each, and whether they have ended. :namespaces namespaces; :run_ids run ids; :positions positions;
-- :limit at most this many chunks of each. A run's end is told only after its last chunk was written: who sees the end in
-- one look sees all the chunks in it, too. Index: primary keys.
SELECT i.n, c.position, c.attempt, c.body, f.status
  FROM unnest(:namespaces::text[], :run_ids::uuid[], :positions::bigint[]) WITH ORDINALITY AS i (namespace, run_id, position, n)
  LEFT JOIN LATERAL (
       SELECT f.status FROM rota.finished_runs AS f WHERE f.namespace = i.namespace AND f.id = i.run_id OFFSET 0
       ) AS f ON true
  LEFT JOIN LATERAL (
       SELECT c.position, c.attempt, c.body FROM rota.log_chunks AS c
        WHERE c.namespace = i.namespace AND c.run_id = i.run_id AND c.position > i.position
        ORDER BY c.position LIMIT :limit
       ) AS c ON true
 ORDER BY i.n, c.position
