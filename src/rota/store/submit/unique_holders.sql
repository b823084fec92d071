-- The status of jobs that have a unique key. `unseen`: it waits where our database role does not see it; asked only of
-- one that is seen nowhere.
-- Index: primary keys.
-- Locks: none
-- Idioms: OFFSET 0.
SELECT i.namespace, i.id, coalesce(j.state, r.status) AS status, j.id IS NOT NULL AS recurring,
       coalesce(j.state IN ('scheduled', 'paused'), r.place <> 'finished' AND r.claim IS NULL,
                rota.waits_unseen(i.namespace, i.id)) AS waits,
       coalesce(j.id, r.id) IS NULL AS unseen, coalesce(j.options, r.options) AS options
  FROM unnest(:namespaces::text[], :job_ids::uuid[]) AS i (namespace, id)
  LEFT JOIN LATERAL (SELECT * FROM rota.jobs AS j WHERE j.namespace = i.namespace AND j.id = i.id OFFSET 0) AS j ON true
  LEFT JOIN LATERAL (SELECT * FROM rota.runs AS r WHERE r.namespace = i.namespace AND r.id = i.id OFFSET 0) AS r ON true
