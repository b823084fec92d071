-- The position of the last chunk of each of these runs, with ids from `first` to `last`, that has one.
-- Index: primary key of log_chunks, walked backwards.
-- Locks: none
-- Plan: custom
SELECT i.run_id, c.position
  FROM unnest(:run_ids::uuid[]) AS i (run_id)
 CROSS JOIN LATERAL (
       SELECT c.position FROM rota.log_chunks AS c
        WHERE c.namespace = :namespace AND c.run_id = i.run_id AND c.run_id >= :first AND c.run_id <= :last
        ORDER BY c.claim DESC, c.number DESC LIMIT 1
       ) AS c
