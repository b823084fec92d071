-- Submits recurring jobs; one array per column, tags comma-separated. Idempotency keys and payloads in object storage
-- are given by the positions of their jobs, as in submit_runs. An item whose key is taken is left out: its first answer
-- stays. Gives the ids that were left out.
-- Index: primary keys.
-- Locks: keys, in the order given: callers sort by key.
WITH input AS MATERIALIZED (
    SELECT i.*, coalesce(octet_length(i.payload) > :inline_bytes::integer, false) OR blobs.key IS NOT NULL AS large,
           blobs.key AS blob
      FROM unnest(:namespaces::text[], :ids::uuid[], :owners::text[], :names::text[], :tasks::text[], :pools::text[],
                  :priorities::smallint[],
                  :tags::text[], :payloads::text[], :options::text[], :shards::smallint[], :schedule_types::text[],
                  :cron_expressions::text[], :intervals::float8[],
                  :timezones::text[], :anchors::timestamptz[], :next_fires::timestamptz[], :policies::text[],
                  :misfires::text[], :starts::timestamptz[],
                  :ends::timestamptz[], :jitters::float8[], :dst::text[], :excluded::text[])
           WITH ORDINALITY
        AS i (namespace, id, owner, name, task, pool, priority, tags, payload, options, shard, schedule_type,
              cron_expression, every_seconds, timezone, anchor_at, next_fire_at, policies, misfire, start_at, end_at,
              jitter_seconds, dst, excluded, n)
      LEFT JOIN unnest(:blob_positions::bigint[], :blobs::text[]) AS blobs (n, key) USING (n)
), offered AS MATERIALIZED (
    SELECT k.n, (:namespaces::text[])[k.n] AS namespace, k.key, k.request_hash, k.answer
      FROM unnest(:key_positions::integer[], :keys::text[], :request_hashes::bytea[], :answers::text[])
           AS k (n, key, request_hash, answer)
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
                           fired_through, policies, misfire, start_at, end_at, jitter_seconds, dst,
                           excluded, excluded_next_at)
    SELECT namespace, id, owner, name, task, pool, priority, string_to_array(tags, ','),
           CASE WHEN NOT large THEN payload END, CASE WHEN large THEN id END, options, shard, schedule_type,
           cron_expression, every_seconds, timezone, anchor_at, 'scheduled', next_fire_at, anchor_at, policies::jsonb,
           misfire, start_at, end_at, jitter_seconds, dst, excluded, CASE WHEN excluded IS NOT NULL THEN next_fire_at END
      FROM accepted
)
SELECT id FROM input WHERE n IN (SELECT n FROM repeated)
