-- These logs can't be read at present: others are sent first.
-- Index: primary key.
-- Locks: the rows.
-- Idioms: by_id, one-element array.
UPDATE rota.log_exports AS e SET ended_at = now()
  FROM unnest(:namespaces::text[], :run_ids::uuid[], :claims::bigint[]) AS i (namespace, run_id, claim)
 WHERE rota.by_id(e.namespace) = ANY (ARRAY[i.namespace]) AND e.run_id = ANY (ARRAY[i.run_id]) AND e.claim = i.claim
   AND e.ended_at IS NOT NULL
