-- The first answers given under idempotency keys.
-- Index: primary key.
-- Locks: none
-- Idioms: OFFSET 0.
SELECT k.namespace, k.key, k.request_hash, k.answer
  FROM unnest(:namespaces::text[], :keys::text[]) AS i (namespace, key)
 CROSS JOIN LATERAL (
       SELECT * FROM rota.submission_keys AS k
        WHERE k.namespace = i.namespace AND k.kind = 'idempotency' AND k.key = i.key AND k.expires_at >= now() OFFSET 0
       ) AS k
