-- Takes unique keys, or shows who has them; theirs or ours, they are locked until the transaction ends.
-- :namespaces namespaces; :keys keys, in order, none twice; :job_ids job ids; :seconds for how many seconds (null: while the job waits).
-- A key whose job only waits is looked at again by the sweeper; see sweep. Index: primary key.
INSERT INTO rota.submission_keys AS k (namespace, kind, key, request_hash, answer, expires_at)
SELECT i.namespace, 'unique', i.key, CASE WHEN i.seconds IS NULL THEN 'waits' ELSE 'window' END::bytea, i.job_id::text,
       now() + coalesce(i.seconds, 86400) * interval '1 second'
  FROM unnest(:namespaces::text[], :keys::text[], :job_ids::uuid[], :seconds::float8[]) AS i (namespace, key, job_id, seconds)
ON CONFLICT (namespace, kind, key) DO UPDATE SET key = excluded.key
RETURNING k.namespace, k.key, k.answer::uuid AS job_id, k.request_hash = 'window'::bytea AND k.expires_at > now() AS in_window
