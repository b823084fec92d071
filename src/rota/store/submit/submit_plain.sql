-- Submits one-shot jobs that run now, without policies and with small payloads: straight into live_runs. Does for them
-- what submit_runs does, in half of the time. What many jobs have alike is a shape, which stands once: namespaces, owners,
-- names, tasks, pools, priorities, tags (comma-separated), options, and the number of the idempotency key (null: none).
-- The jobs of a shape follow each other in ids, shards and payloads, from position `firsts` to `lasts`. If `shards` is
-- empty, the jobs of a shape are in one of `shard_counts` shards after the other, from `first_shards` on. Jobs whose key is
-- taken are left out: the first answer stays. Gives the numbers of the keys that were taken.
-- Index: primary keys.
-- Locks: keys, in the order given: callers sort by key. Waits for them for `lock_timeout`.
WITH patience AS MATERIALIZED (
    SELECT set_config('lock_timeout', :lock_timeout::text, true)
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
), shapes AS MATERIALIZED (
    SELECT s.namespace, s.owner, s.name, s.task, s.pool, s.priority, string_to_array(s.tags, ',') AS tags, s.options,
           rota.lane_of(s.namespace, s.pool, s.task, s.priority) AS lane, rota.expiry_of(s.options, now()) AS expires_at,
           s.first_shard, s.shard_count, s.first, s.last
      FROM unnest(:namespaces::text[], :owners::text[], :names::text[], :tasks::text[], :pools::text[],
                  :priorities::smallint[], :tags::text[], :options::text[], :key_numbers::bigint[],
                  :first_shards::integer[], :shard_counts::integer[], :firsts::integer[], :lasts::integer[])
           AS s (namespace, owner, name, task, pool, priority, tags, options, key_number, first_shard, shard_count, first,
                 last)
     WHERE s.key_number IS NULL OR s.key_number NOT IN (SELECT n FROM taken)
), ready AS (
    INSERT INTO rota.live_runs (namespace, id, job_id, job_version, owner, name, task, pool, priority, tags, payload,
                                options, cause, shard, nominal_at, run_at, created_at, expires_at, lane, ready_at)
    SELECT s.namespace, i.id, i.id, 1, s.owner, s.name, s.task, s.pool, s.priority, s.tags, i.payload, s.options, 'submit',
           coalesce(i.shard, (s.first_shard + i.n - 1) % s.shard_count), now(), now(), now(), s.expires_at, s.lane, now()
      FROM shapes AS s
     CROSS JOIN LATERAL unnest((:ids::uuid[])[s.first:s.last], (:shards::smallint[])[s.first:s.last],
                               (:payloads::text[])[s.first:s.last])
           WITH ORDINALITY AS i (id, shard, payload, n)
)
SELECT n FROM taken
