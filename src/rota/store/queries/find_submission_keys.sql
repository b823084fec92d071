-- The first answers given under idempotency keys. $1 namespaces; $2 keys. Index: primary key.
SELECT k.namespace, k.key, k.request_hash, k.answer
  FROM unnest($1::text[], $2::text[]) AS i (namespace, key)
 CROSS JOIN LATERAL (
       SELECT * FROM rota.submission_keys AS k
        WHERE k.namespace = i.namespace AND k.kind = 'idempotency' AND k.key = i.key AND k.expires_at >= now() OFFSET 0
       ) AS k
