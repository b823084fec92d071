-- Takes unique keys (in order, none twice) for `seconds` (null: while the job waits; the sweeper checks such a key
-- again), or returns the jobs that hold them.
-- Index: primary key.
-- Locks: the keys' rows, taken or held by another job, until the transaction ends.
INSERT INTO rota.submission_keys AS k (namespace, kind, key, request_hash, answer, expires_at)
SELECT i.namespace, 'unique', i.key, CASE WHEN i.seconds IS NULL THEN 'waits' ELSE 'window' END::bytea, i.job_id::text,
       now() + coalesce(i.seconds, 86400) * interval '1 second'
  FROM unnest(:namespaces::text[], :keys::text[], :job_ids::uuid[], :seconds::float8[])
       AS i (namespace, key, job_id, seconds)
ON CONFLICT (namespace, kind, key) DO UPDATE SET key = excluded.key
RETURNING k.namespace, k.key, k.answer::uuid AS job_id, k.request_hash = 'window'::bytea
      AND k.expires_at > now() AS in_window
