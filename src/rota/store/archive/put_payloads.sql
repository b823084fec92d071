-- Puts back payloads of runs that are restored.
-- Index: primary key.
-- Locks: none
INSERT INTO rota.payloads (namespace, id, body, blob)
SELECT DISTINCT ON (i.namespace, i.id) i.namespace, i.id, i.body, i.blob
  FROM unnest(:namespaces::text[], :payload_ids::uuid[], :bodies::text[], :blobs::text[]) AS i (namespace, id, body, blob)
    ON CONFLICT DO NOTHING
