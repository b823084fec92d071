-- The jobs that have these chosen ids.
-- Index: primary key.
-- Locks: none
-- Idioms: OFFSET 0.
SELECT c.namespace, c.chosen_id, c.job_id
  FROM unnest(:namespaces::text[], :chosen_ids::text[]) AS i (namespace, chosen_id)
 CROSS JOIN LATERAL (
       SELECT * FROM rota.chosen_ids AS c WHERE c.namespace = i.namespace AND c.chosen_id = i.chosen_id OFFSET 0
       ) AS c
