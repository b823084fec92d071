-- Which of these objects are results that a run has or may still get. Those of an archived day stay.
-- Index: primary keys, one day of history each.
-- Locks: none
-- Plan: custom
-- Idioms: OFFSET 0.
SELECT i.key
  FROM unnest(:keys::text[], :namespaces::text[], :run_ids::uuid[]) AS i (key, namespace, run_id)
 WHERE EXISTS (SELECT FROM rota.archives AS a WHERE a.first_id <= i.run_id AND a.before_id > i.run_id)
    OR EXISTS (SELECT FROM rota.open_runs AS o WHERE o.namespace = i.namespace AND o.id = i.run_id OFFSET 0)
    OR EXISTS (SELECT FROM rota.finished_runs AS f
                WHERE f.namespace = i.namespace AND f.id = i.run_id AND f.result_blob = i.key
                  AND f.id >= :first AND f.id <= :last OFFSET 0)
