-- Writes what gates remember. One array per column: $1 namespaces, $2 kinds, $3 keys, $4 tokens, $5 when they were counted,
-- $6 states, $7 failures in a row, $8 probes, $9 until when open, $10 when to look again, $11 when a bucket is full. Index: primary key.
INSERT INTO rota.gates (namespace, kind, key, tokens, counted_at, state, failures, probe, until, wakes_at, full_at)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::float8[], $5::timestamptz[], $6::text[], $7::integer[],
                     $8::uuid[], $9::timestamptz[], $10::timestamptz[], $11::timestamptz[])
ON CONFLICT (namespace, kind, key) DO UPDATE
   SET tokens = excluded.tokens, counted_at = excluded.counted_at, state = excluded.state, failures = excluded.failures,
       probe = excluded.probe, until = excluded.until, wakes_at = excluded.wakes_at, full_at = excluded.full_at, changed_at = now()
