-- Marks sets of jobs as split, by an answer that says so under their idempotency keys. A set that was written, or is
-- split already, stays as it is.
-- Index: primary key.
-- Locks: keys, in the order given: callers sort by key. Waits for them for `lock_timeout`.
WITH patience AS MATERIALIZED (
    SELECT set_config('lock_timeout', :lock_timeout::text, true)
)
INSERT INTO rota.submission_keys (namespace, kind, key, request_hash, answer, expires_at)
SELECT k.namespace, 'idempotency', k.key, :request_hash::bytea, :answer::text, now() + interval '24 hours'
  FROM patience CROSS JOIN unnest(:namespaces::text[], :keys::text[]) AS k (namespace, key)
ON CONFLICT (namespace, kind, key) DO UPDATE
   SET request_hash = excluded.request_hash, answer = excluded.answer, expires_at = excluded.expires_at
 WHERE submission_keys.expires_at < now()
