-- Why the last attempts of several runs, with ids from `first` to `last`, did not succeed.
-- Index: primary key of attempts, one day of it each.
-- Locks: none
-- Plan: custom
SELECT i.namespace, i.id, a.error
  FROM unnest(:namespaces::text[], :run_ids::uuid[]) AS i (namespace, id)
 CROSS JOIN LATERAL (
       SELECT a.error FROM rota.attempts AS a
        WHERE a.namespace = i.namespace AND a.run_id = i.id AND a.run_id >= :first AND a.run_id <= :last
        ORDER BY a.finished_at DESC, a.number DESC LIMIT 1
       ) AS a
