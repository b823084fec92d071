-- The first answers given under idempotency keys. :namespaces namespaces; :keys keys. Index: primary key.
SELECT k.namespace, k.key, k.request_hash, k.answer
  FROM unnest(:namespaces::text[], :keys::text[]) AS i (namespace, key)
 CROSS JOIN LATERAL (
       SELECT * FROM rota.submission_keys AS k
        WHERE k.namespace = i.namespace AND k.kind = 'idempotency' AND k.key = i.key AND k.expires_at >= now() OFFSET 0
       ) AS k
