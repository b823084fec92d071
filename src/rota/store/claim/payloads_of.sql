-- Large payloads by id.
-- Index: primary key.
-- Locks: none
-- Idioms: OFFSET 0.
SELECT p.namespace, p.id, p.body, p.blob FROM unnest(:namespaces::text[], :payload_ids::uuid[]) AS i (namespace, id)
 CROSS JOIN LATERAL (SELECT * FROM rota.payloads AS p WHERE p.namespace = i.namespace AND p.id = i.id OFFSET 0) AS p
