-- These logs were sent to their ends.
-- Index: primary key.
-- Locks: the rows.
-- Idioms: by_id, one-element array.
DELETE FROM rota.log_exports AS e
 USING unnest(:namespaces::text[], :run_ids::uuid[], :claims::bigint[]) AS i (namespace, run_id, claim)
 WHERE rota.by_id(e.namespace) = ANY (ARRAY[i.namespace]) AND e.run_id = ANY (ARRAY[i.run_id]) AND e.claim = i.claim
   AND e.ended_at IS NOT NULL
