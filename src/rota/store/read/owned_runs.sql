-- Which of these runs are this owner's.
-- Index: primary keys.
-- Locks: none
-- Idioms: OFFSET 0.
SELECT r.id
  FROM unnest(:run_ids::uuid[]) AS i (id)
 CROSS JOIN LATERAL (SELECT r.id, r.owner FROM rota.runs AS r WHERE r.namespace = :namespace
                        AND r.id = i.id OFFSET 0) AS r
 WHERE r.owner = :owner
