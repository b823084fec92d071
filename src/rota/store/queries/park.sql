-- Writes at which gate runs wait, where that is another. $1 namespaces; $2 run ids; $3 gates; $4 their keys. Callers have locked them.
-- Index: primary key.
UPDATE rota.held_runs AS h SET gate = i.gate, gate_key = i.gate_key
  FROM unnest($1::text[], $2::uuid[], $3::text[], $4::text[]) AS i (namespace, id, gate, gate_key)
 WHERE h.namespace = ANY (ARRAY[i.namespace]) AND h.id = ANY (ARRAY[i.id])
   AND (h.gate, h.gate_key) IS DISTINCT FROM (i.gate, i.gate_key)
