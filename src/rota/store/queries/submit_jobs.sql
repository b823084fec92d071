-- Submits recurring jobs. One array per column: $1 namespaces, $2 ids, $3 owners, $4 names, $5 tasks, $6 pools,
-- $7 priorities, $8 tags (comma-separated), $9 payloads, $10 options, $11 shards, $12 schedule types, $13 cron
-- expressions, $14 intervals in seconds, $15 time zones, $16 anchors, $17 next fire times; $18 to $21 idempotency keys
-- as in submit_runs; $22 largest inline payload in bytes; $23, $24 payloads in object storage as in submit_runs; $25 policies,
-- $26 misfire rules, $27 starts, $28 ends, $29 jitters in seconds, $30 rules for clock changes.
-- An item whose key is taken is left out: its first answer stands. Gives back the ids that were left out.
WITH input AS MATERIALIZED (
    SELECT i.*, coalesce(octet_length(i.payload) > $22::integer, false) OR blobs.key IS NOT NULL AS large,
           blobs.key AS blob
      FROM unnest($1::text[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::smallint[],
                  $8::text[], $9::text[], $10::text[], $11::smallint[], $12::text[], $13::text[], $14::float8[],
                  $15::text[], $16::timestamptz[], $17::timestamptz[], $25::text[], $26::text[], $27::timestamptz[],
                  $28::timestamptz[], $29::float8[], $30::text[])
           WITH ORDINALITY
        AS i (namespace, id, owner, name, task, pool, priority, tags, payload, options, shard, schedule_type,
              cron_expression, every_seconds, timezone, anchor_at, next_fire_at, policies, misfire, start_at, end_at,
              jitter_seconds, dst, n)
      LEFT JOIN unnest($23::bigint[], $24::text[]) AS blobs (n, key) USING (n)
), offered AS MATERIALIZED (
    SELECT k.n, ($1::text[])[k.n] AS namespace, k.key, k.request_hash, k.answer
      FROM unnest($18::integer[], $19::text[], $20::bytea[], $21::text[]) AS k (n, key, request_hash, answer)
), keyed AS (
    INSERT INTO rota.submission_keys (namespace, kind, key, request_hash, answer, expires_at)
    SELECT namespace, 'idempotency', key, request_hash, answer, now() + interval '24 hours' FROM offered
    ON CONFLICT (namespace, kind, key) DO UPDATE
       SET request_hash = excluded.request_hash, answer = excluded.answer, expires_at = excluded.expires_at
     WHERE submission_keys.expires_at < now()
    RETURNING namespace, key
), repeated AS MATERIALIZED (
    SELECT n::bigint FROM offered WHERE (namespace, key) NOT IN (SELECT namespace, key FROM keyed)
), accepted AS (
    SELECT * FROM input WHERE n NOT IN (SELECT n FROM repeated)
), large AS (
    INSERT INTO rota.payloads (namespace, id, body, blob)
    SELECT namespace, id, payload, blob FROM accepted WHERE large
), scheduled AS (
    INSERT INTO rota.jobs (namespace, id, owner, name, task, pool, priority, tags, payload, payload_id, options, shard,
                           schedule_type, cron_expression, every_seconds, timezone, anchor_at, state, next_fire_at,
                           fired_through, policies, misfire, start_at, end_at, jitter_seconds, dst)
    SELECT namespace, id, owner, name, task, pool, priority, string_to_array(tags, ','),
           CASE WHEN NOT large THEN payload END, CASE WHEN large THEN id END, options, shard, schedule_type,
           cron_expression, every_seconds, timezone, anchor_at, 'scheduled', next_fire_at, anchor_at, policies::jsonb,
           misfire, start_at, end_at, jitter_seconds, dst
      FROM accepted
)
SELECT id FROM input WHERE n IN (SELECT n FROM repeated)
