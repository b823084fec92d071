-- Large payloads by id. $1 namespaces; $2 ids. Index: primary key.
SELECT p.namespace, p.id, p.body FROM unnest($1::text[], $2::uuid[]) AS i (namespace, id)
  JOIN rota.payloads AS p ON p.namespace = i.namespace AND p.id = i.id
