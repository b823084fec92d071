-- Large payloads by id. $1 namespaces; $2 ids. Index: primary key.
SELECT p.namespace, p.id, p.body, p.blob FROM unnest($1::text[], $2::uuid[]) AS i (namespace, id)
 CROSS JOIN LATERAL (SELECT * FROM rota.payloads AS p WHERE p.namespace = i.namespace AND p.id = i.id OFFSET 0) AS p
