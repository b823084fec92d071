-- Large payloads by id. :namespaces namespaces; :payload_ids ids. Index: primary key.
SELECT p.namespace, p.id, p.body, p.blob FROM unnest(:namespaces::text[], :payload_ids::uuid[]) AS i (namespace, id)
 CROSS JOIN LATERAL (SELECT * FROM rota.payloads AS p WHERE p.namespace = i.namespace AND p.id = i.id OFFSET 0) AS p
