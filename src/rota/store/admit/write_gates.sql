-- Writes what gates remember.
-- Index: primary key.
-- Locks: the gates' rows, in the order given.
INSERT INTO rota.gates (namespace, kind, key, tokens, counted_at, state, failures, probe, until, wakes_at, full_at)
SELECT * FROM unnest(:namespaces::text[], :kinds::text[], :keys::text[], :tokens::float8[],
                     :counted_at::timestamptz[], :states::text[], :failures::integer[],
                     :probes::uuid[], :until::timestamptz[], :wakes_at::timestamptz[], :full_at::timestamptz[])
ON CONFLICT (namespace, kind, key) DO UPDATE
   SET tokens = excluded.tokens, counted_at = excluded.counted_at, state = excluded.state, failures = excluded.failures,
       probe = excluded.probe, until = excluded.until, wakes_at = excluded.wakes_at, full_at = excluded.full_at,
       changed_at = now()
