-- What several runs, with ids from `first` to `last`, wrote after a position each, and whether they have ended. A run's
-- end is written after its last chunk: a look that sees the end sees all the chunks, too.
-- Index: primary keys.
-- Locks: none
-- Plan: custom
-- Idioms: OFFSET 0.
SELECT i.n, c.position, c.attempt, c.body, f.status
  FROM unnest(:namespaces::text[], :run_ids::uuid[], :positions::bigint[]) WITH ORDINALITY
       AS i (namespace, run_id, position, n)
  LEFT JOIN LATERAL (
       SELECT f.status FROM rota.finished_runs AS f
        WHERE f.namespace = i.namespace AND f.id = i.run_id AND f.id >= :first AND f.id <= :last OFFSET 0
       ) AS f ON true
  LEFT JOIN LATERAL (
       SELECT c.position, c.attempt, c.body FROM rota.log_chunks AS c
        WHERE c.namespace = i.namespace AND c.run_id = i.run_id AND c.position > i.position
          AND c.run_id >= :first AND c.run_id <= :last
        ORDER BY c.position LIMIT :limit
       ) AS c ON true
 ORDER BY i.n, c.position
