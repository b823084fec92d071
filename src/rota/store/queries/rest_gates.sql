-- Nobody waits at these gates: they need not be looked at. $1 namespaces; $2 kinds; $3 keys. Index: primary key.
UPDATE rota.gates AS g SET wakes_at = NULL
  FROM unnest($1::text[], $2::text[], $3::text[]) AS i (namespace, kind, key)
 WHERE g.namespace = i.namespace AND g.kind = i.kind AND g.key = i.key
