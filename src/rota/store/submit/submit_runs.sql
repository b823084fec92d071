-- Submits one-shot jobs: into live_runs when due within the lookahead, else into upcoming_runs; one with policies that
-- is due goes to its gates (held_runs). One array per column (`run_at` null: now). A shape is a position in the arrays
-- that hold once what many jobs of a batch have alike: namespaces, owners, tasks, pools, priorities, tags
-- (comma-separated), options, policies (null: plain). Jobs with an idempotency key have its number in `key_numbers`
-- (null: none); several may have the same. Payloads in object storage are named by the positions of their jobs
-- (`blob_positions`). A job whose key is taken is left out: the first answer stays. Gives the numbers of the keys that
-- were taken.
-- Index: primary keys.
-- Locks: keys, in the order given: callers sort by key. Waits for them for `lock_timeout`.
WITH patience AS MATERIALIZED (
    SELECT set_config('lock_timeout', :lock_timeout::text, true)
), input AS MATERIALIZED (
    SELECT i.n, (:namespaces::text[])[i.shape] AS namespace, i.id, (:owners::text[])[i.shape] AS owner, i.name,
           (:tasks::text[])[i.shape] AS task, (:pools::text[])[i.shape] AS pool,
           (:priorities::smallint[])[i.shape] AS priority,
           string_to_array((:tags::text[])[i.shape], ',') AS tags, i.payload, (:options::text[])[i.shape] AS options,
           (:policies::text[])[i.shape]::jsonb AS policies, i.shard,
           coalesce(i.run_at, now()) AS due_at, coalesce(octet_length(i.payload) > :inline_bytes::integer, false)
           OR blobs.key IS NOT NULL AS large,
           blobs.key AS blob, i.key_number
      FROM unnest(:ids::uuid[], :shards::smallint[], :names::text[], :payloads::text[], :run_at::timestamptz[],
                  :shapes::smallint[], :key_numbers::bigint[])
           WITH ORDINALITY AS i (id, shard, name, payload, run_at, shape, key_number, n)
      LEFT JOIN unnest(:blob_positions::bigint[], :blobs::text[]) AS blobs (n, key) USING (n)
), offered AS MATERIALIZED (
    SELECT k.n, k.namespace, k.key, k.request_hash, k.answer
      FROM patience
     CROSS JOIN unnest(:key_namespaces::text[], :keys::text[], :request_hashes::bytea[], :answers::text[])
           WITH ORDINALITY AS k (namespace, key, request_hash, answer, n)
), keyed AS (
    INSERT INTO rota.submission_keys (namespace, kind, key, request_hash, answer, expires_at)
    SELECT namespace, 'idempotency', key, request_hash, answer, now() + interval '24 hours' FROM offered
    ON CONFLICT (namespace, kind, key) DO UPDATE
       SET request_hash = excluded.request_hash, answer = excluded.answer, expires_at = excluded.expires_at
     WHERE submission_keys.expires_at < now()
    RETURNING namespace, key
), taken AS MATERIALIZED (
    SELECT n FROM offered WHERE (namespace, key) NOT IN (SELECT namespace, key FROM keyed)
), accepted AS (
    SELECT * FROM input WHERE key_number IS NULL OR key_number NOT IN (SELECT n FROM taken)
), large AS (
    INSERT INTO rota.payloads (namespace, id, body, blob)
    SELECT namespace, id, payload, blob FROM accepted WHERE large
), ready AS (
    INSERT INTO rota.live_runs ({run}, lane, ready_at)
    SELECT namespace, id, id, 1, owner, name, task, pool, priority, tags, CASE WHEN NOT large THEN payload END,
           CASE WHEN large THEN id END, options, 'submit', NULL, NULL, shard, due_at, due_at, 0, 0, now(),
           rota.expiry_of(options, due_at), NULL, 0, NULL, rota.lane_of(namespace, pool, task, priority),
           greatest(due_at, now())
      FROM accepted WHERE due_at <= now() + :lookahead::interval AND policies IS NULL
), gated AS (
    INSERT INTO rota.held_runs ({run}, gate)
    SELECT namespace, id, id, 1, owner, name, task, pool, priority, tags, CASE WHEN NOT large THEN payload END,
           CASE WHEN large THEN id END, options, 'submit', NULL, NULL, shard, due_at, due_at, 0, 0, now(),
           rota.expiry_of(options, due_at), NULL, 0, policies, 'new'
      FROM accepted WHERE due_at <= now() + :lookahead::interval AND policies IS NOT NULL
), waiting AS (
    INSERT INTO rota.upcoming_runs ({run})
    SELECT namespace, id, id, 1, owner, name, task, pool, priority, tags, CASE WHEN NOT large THEN payload END,
           CASE WHEN large THEN id END, options, 'submit', NULL, NULL, shard, due_at, due_at, 0, 0, now(),
           rota.expiry_of(options, due_at), NULL, 0, policies
      FROM accepted WHERE due_at > now() + :lookahead::interval
)
SELECT n FROM taken
