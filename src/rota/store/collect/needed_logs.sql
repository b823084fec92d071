-- Which of these objects are logs of an attempt each that are recorded, or may still be. Those of an archived day stay.
-- Index: primary keys, one day of history each.
-- Locks: none
-- Plan: custom
-- Idioms: OFFSET 0.
SELECT i.key
  FROM unnest(:keys::text[], :namespaces::text[], :run_ids::uuid[], :claims::bigint[]) AS i (key, namespace, run_id, claim)
 WHERE EXISTS (SELECT FROM rota.archives AS a WHERE a.first_id <= i.run_id AND a.before_id > i.run_id)
    OR EXISTS (SELECT FROM rota.open_runs AS o WHERE o.namespace = i.namespace AND o.id = i.run_id OFFSET 0)
    OR EXISTS (SELECT FROM rota.log_ends AS e WHERE e.namespace = i.namespace AND e.run_id = i.run_id OFFSET 0)
    OR EXISTS (SELECT FROM rota.log_chunks AS c
                WHERE c.namespace = i.namespace AND c.run_id = i.run_id AND c.run_id >= :first AND c.run_id <= :last OFFSET 0)
    OR EXISTS (SELECT FROM rota.kept_logs AS k
                WHERE k.namespace = i.namespace AND k.run_id = i.run_id AND k.claim = i.claim AND k.blob = i.key
                  AND k.run_id >= :first AND k.run_id <= :last OFFSET 0)
