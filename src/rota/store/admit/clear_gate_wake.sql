-- No run waits at these gates: they need not be looked at.
-- Index: primary key.
-- Locks: the gates' rows.
UPDATE rota.gates AS g SET wakes_at = NULL
  FROM unnest(:namespaces::text[], :kinds::text[], :keys::text[]) AS i (namespace, kind, key)
 WHERE g.namespace = i.namespace AND g.kind = i.kind AND g.key = i.key
