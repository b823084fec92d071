-- Submits one-shot jobs: into live_runs when due within the lookahead, else into upcoming_runs.
-- One array per column: $1 namespaces, $2 ids, $3 owners, $4 names, $5 tasks, $6 pools, $7 priorities,
-- $8 tags (comma-separated), $9 payloads, $10 options, $11 shards, $12 run_at (null: now), $13 idempotency keys
-- (null: none) with $14 request hashes and $15 answers; $16 lookahead; $17 largest inline payload in bytes.
-- An item whose key is taken is left out: its first answer stands. Gives back the ids that went in.
-- Index: primary keys. Keys of others are waited for in the order given: callers sort by key.
WITH input AS (
    SELECT i.*, coalesce(i.run_at, now()) AS due_at, octet_length(i.payload) > $17::integer AS large
      FROM unnest($1::text[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::smallint[],
                  $8::text[], $9::text[], $10::text[], $11::smallint[], $12::timestamptz[], $13::text[],
                  $14::bytea[], $15::text[])
        AS i (namespace, id, owner, name, task, pool, priority, tags, payload, options, shard, run_at, key,
              request_hash, answer)
), keyed AS (
    INSERT INTO rota.submission_keys (namespace, kind, key, request_hash, answer, expires_at)
    SELECT namespace, 'idempotency', key, request_hash, answer, now() + interval '24 hours'
      FROM input WHERE key IS NOT NULL
    ON CONFLICT (namespace, kind, key) DO UPDATE
       SET request_hash = excluded.request_hash, answer = excluded.answer, expires_at = excluded.expires_at
     WHERE submission_keys.expires_at < now()
    RETURNING namespace, key
), accepted AS (
    SELECT i.* FROM input AS i
     WHERE i.key IS NULL OR EXISTS (SELECT FROM keyed AS k WHERE k.namespace = i.namespace AND k.key = i.key)
), large AS (
    INSERT INTO rota.payloads (namespace, id, body)
    SELECT namespace, id, payload FROM accepted WHERE large
), ready AS (
    INSERT INTO rota.live_runs ({run}, ready_at)
    SELECT namespace, id, id, 1, owner, name, task, pool, priority, string_to_array(tags, ','),
           CASE WHEN NOT large THEN payload END, CASE WHEN large THEN id END, options, 'submit', NULL, NULL,
           shard, due_at, due_at, 0, 0, now(), greatest(due_at, now())
      FROM accepted WHERE due_at <= now() + $16::interval
    RETURNING id
), waiting AS (
    INSERT INTO rota.upcoming_runs ({run})
    SELECT namespace, id, id, 1, owner, name, task, pool, priority, string_to_array(tags, ','),
           CASE WHEN NOT large THEN payload END, CASE WHEN large THEN id END, options, 'submit', NULL, NULL,
           shard, due_at, due_at, 0, 0, now()
      FROM accepted WHERE due_at > now() + $16::interval
    RETURNING id
)
SELECT id FROM ready UNION ALL SELECT id FROM waiting
