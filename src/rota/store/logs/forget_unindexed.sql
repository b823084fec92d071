-- These logs are in blocks now.
-- Index: primary key.
-- Locks: the rows.
-- Idioms: by_id, one-element array.
DELETE FROM rota.unindexed_logs AS u
 USING unnest(:namespaces::text[], :run_ids::uuid[], :claims::bigint[]) AS i (namespace, run_id, claim)
 WHERE rota.by_id(u.namespace) = ANY (ARRAY[i.namespace]) AND u.run_id = ANY (ARRAY[i.run_id]) AND u.claim = i.claim
