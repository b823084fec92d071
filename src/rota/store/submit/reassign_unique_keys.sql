-- Gives unique keys to other jobs, for `seconds` (null: while the job waits).
-- Index: primary key.
-- Locks: none of its own: callers have locked the keys.
INSERT INTO rota.submission_keys AS k (namespace, kind, key, request_hash, answer, expires_at)
SELECT i.namespace, 'unique', i.key, CASE WHEN i.seconds IS NULL THEN 'waits' ELSE 'window' END::bytea, i.job_id::text,
       now() + coalesce(i.seconds, 86400) * interval '1 second'
  FROM unnest(:namespaces::text[], :keys::text[], :job_ids::uuid[], :seconds::float8[])
       AS i (namespace, key, job_id, seconds)
ON CONFLICT (namespace, kind, key) DO UPDATE
   SET request_hash = excluded.request_hash, answer = excluded.answer, expires_at = excluded.expires_at
