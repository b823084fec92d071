-- Writes at which gate runs wait, where that is another one than before.
-- Index: primary key.
-- Locks: none of its own: callers have locked the runs.
-- Idioms: one-element array, by_id.
UPDATE rota.held_runs AS h SET gate = i.gate, gate_key = i.gate_key
  FROM unnest(:namespaces::text[], :run_ids::uuid[], :gates::text[], :gate_keys::text[])
       AS i (namespace, id, gate, gate_key)
 WHERE rota.by_id(h.namespace) = ANY (ARRAY[i.namespace]) AND h.id = ANY (ARRAY[i.id])
   AND (h.gate, h.gate_key) IS DISTINCT FROM (i.gate, i.gate_key)
