-- Submits recurring jobs. One array per column: $1 to $11 as in submit_runs, $12 schedule types,
-- $13 cron expressions, $14 intervals in seconds, $15 time zones, $16 anchors, $17 next fire times,
-- $18 idempotency keys (null: none) with $19 request hashes and $20 answers; $21 largest inline payload.
-- An item whose key is taken is left out: its first answer stands. Gives back the ids that went in.
WITH input AS (
    SELECT i.*, octet_length(i.payload) > $21::integer AS large
      FROM unnest($1::text[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::smallint[],
                  $8::text[], $9::text[], $10::text[], $11::smallint[], $12::text[], $13::text[], $14::float8[],
                  $15::text[], $16::timestamptz[], $17::timestamptz[], $18::text[], $19::bytea[], $20::text[])
        AS i (namespace, id, owner, name, task, pool, priority, tags, payload, options, shard, schedule_type,
              cron_expression, every_seconds, timezone, anchor_at, next_fire_at, key, request_hash, answer)
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
)
INSERT INTO rota.jobs (namespace, id, owner, name, task, pool, priority, tags, payload, payload_id, options, shard,
                       schedule_type, cron_expression, every_seconds, timezone, anchor_at, state, next_fire_at,
                       fired_through)
SELECT namespace, id, owner, name, task, pool, priority, string_to_array(tags, ','),
       CASE WHEN NOT large THEN payload END, CASE WHEN large THEN id END, options, shard, schedule_type,
       cron_expression, every_seconds, timezone, anchor_at, 'scheduled', next_fire_at, anchor_at
  FROM accepted
RETURNING id
