-- Writes jobs that were checked already (gateway/transaction.py); for the owner and submit_v1 alone.
-- Does what store/submit does with submit_runs.sql, submit_jobs.sql and the statements for unique keys;
-- tests/store/test_parity.py holds both to the same rows and answers.
--
-- Takes a JSON array of jobs (JobRow). Returns a JSON array with one answer each, in the same order:
--   status                        it went in
--   duplicate, status, recurring  the job that has its unique key
--   repeated, same                the first answer to its idempotency key, and whether the request is the same
-- Jobs are written in the order of their unique keys, then of their idempotency keys; of each job the idempotency key
-- is locked first. (store/submit locks unique keys first.)
-- Plans are pinned here because the session belongs to the caller. Wake-ups are sent when the caller commits.
CREATE FUNCTION rota.submit_unbound(jobs text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_bitmapscan = off
AS $$
#variable_conflict use_variable
DECLARE
    moment    timestamptz := clock_timestamp();
    shards    bigint := (SELECT c.shards FROM rota.constants AS c);
    answers   text[] := '{}';
    job       jsonb;
    place     bigint;
    ns        text;
    job_id    uuid;
    run_shard smallint;
    due_at    timestamptz;
    gates     jsonb;
    tag_list  text[];
    inline    text;
    large_id  uuid;
    expires   timestamptz;
    holder    uuid;
    in_window boolean;
    stands    text;
    recurring boolean;
    waits     boolean;
    before    rota.submission_keys;
    status    text;
BEGIN
    FOR job, place IN
        SELECT a.job, a.place FROM jsonb_array_elements(jobs::jsonb) WITH ORDINALITY AS a (job, place)
         ORDER BY a.job -> 'unique' ->> 'key', a.job ->> 'key', a.place
    LOOP
        ns := job ->> 'namespace';
        job_id := (job ->> 'id')::uuid;

        -- Idempotency key: one that is taken, and has not expired, stands with its answer.
        IF job ? 'key' THEN
            INSERT INTO rota.submission_keys AS k (namespace, kind, key, request_hash, answer, expires_at)
            VALUES (ns, 'idempotency', job ->> 'key', decode(job ->> 'requestHash', 'hex'), job ->> 'answer',
                    moment + interval '24 hours')
            ON CONFLICT ON CONSTRAINT submission_keys_pkey DO UPDATE
               SET request_hash = excluded.request_hash, answer = excluded.answer, expires_at = excluded.expires_at
             WHERE k.expires_at < moment;
            IF NOT FOUND THEN
                SELECT k.* INTO before FROM rota.submission_keys AS k
                 WHERE k.namespace = ns AND k.kind = 'idempotency' AND k.key = job ->> 'key';
                answers[place] := jsonb_build_object('repeated', before.answer,
                    'same', before.request_hash = decode(job ->> 'requestHash', 'hex'))::text;
                CONTINUE;
            END IF;
        END IF;

        -- Unique key: ours, or locked together with the look at the job that has it.
        IF job ? 'unique' THEN
            INSERT INTO rota.submission_keys AS k (namespace, kind, key, request_hash, answer, expires_at)
            VALUES (ns, 'unique', job -> 'unique' ->> 'key',
                    CASE WHEN job -> 'unique' ->> 'seconds' IS NULL THEN 'waits' ELSE 'window' END::bytea, job_id::text,
                    moment + coalesce((job -> 'unique' ->> 'seconds')::float8, 86400) * interval '1 second')
            ON CONFLICT ON CONSTRAINT submission_keys_pkey DO UPDATE SET key = excluded.key
            RETURNING k.answer::uuid, k.request_hash = 'window'::bytea AND k.expires_at > moment INTO holder, in_window;
            IF holder <> job_id THEN
                SELECT coalesce(j.state, r.status, 'gone'), j.id IS NOT NULL,
                       coalesce(j.state IN ('scheduled', 'paused'), r.place <> 'finished' AND r.claim IS NULL, false)
                  INTO stands, recurring, waits
                  FROM (SELECT 1) AS one
                  LEFT JOIN LATERAL (SELECT * FROM rota.jobs AS j
                                      WHERE j.namespace = ns AND j.id = holder OFFSET 0) AS j ON true
                  LEFT JOIN LATERAL (SELECT * FROM rota.runs AS r
                                      WHERE r.namespace = ns AND r.id = holder OFFSET 0) AS r ON true;
                IF (waits OR in_window)
                   AND (job -> 'unique' ->> 'onDuplicate' <> 'replace' OR (recurring AND waits)) THEN
                    DELETE FROM rota.submission_keys AS k
                     WHERE job ? 'key' AND k.namespace = ns AND k.kind = 'idempotency' AND k.key = job ->> 'key';
                    answers[place] := jsonb_build_object('duplicate', holder, 'status', stands,
                                                         'recurring', recurring)::text;
                    CONTINUE;
                END IF;
                UPDATE rota.submission_keys AS k
                   SET request_hash = CASE WHEN job -> 'unique' ->> 'seconds' IS NULL
                                           THEN 'waits' ELSE 'window' END::bytea,
                       answer = job_id::text,
                       expires_at = moment + coalesce((job -> 'unique' ->> 'seconds')::float8, 86400)
                                             * interval '1 second'
                 WHERE k.namespace = ns AND k.kind = 'unique' AND k.key = job -> 'unique' ->> 'key';
                -- A holder that moves at this moment is looked for again, until it was replaced or no longer waits.
                FOR look IN 1..100 LOOP
                    EXIT WHEN NOT waits;
                    PERFORM rota.replace_waiting(ns, holder, job_id);
                    SELECT r.place <> 'finished' AND r.claim IS NULL INTO waits
                      FROM rota.runs AS r WHERE r.namespace = ns AND r.id = holder;
                    waits := coalesce(waits, false);
                    PERFORM pg_sleep(0.005) WHERE waits;
                END LOOP;
            END IF;
        END IF;

        -- A large payload gets a row of its own.
        run_shard := (job ->> 'spread')::bigint % shards;
        inline := job ->> 'payload';
        large_id := NULL;
        IF octet_length(inline) > (job ->> 'inlineBytes')::integer THEN
            INSERT INTO rota.payloads (namespace, id, body) VALUES (ns, job_id, inline);
            inline := NULL;
            large_id := job_id;
        END IF;
        tag_list := ARRAY(SELECT jsonb_array_elements_text(job -> 'tags'));
        gates := CASE WHEN job ->> 'policies' IS NOT NULL THEN (job ->> 'policies')::jsonb END;

        IF job ? 'timetable' THEN
            INSERT INTO rota.jobs (
                namespace, id, owner, name, task, pool, priority, tags, payload, payload_id, options, shard,
                schedule_type, cron_expression, every_seconds, timezone, anchor_at, state, next_fire_at, fired_through,
                policies, misfire, start_at, end_at, jitter_seconds, dst)
            SELECT ns, job_id, job ->> 'owner', job ->> 'name', job ->> 'task', job ->> 'pool',
                   (job ->> 'priority')::smallint, tag_list, inline, large_id, job ->> 'options', run_shard,
                   t.schedule_type, t.cron_expression, t.every_seconds, t.timezone, t.anchor_at, 'scheduled',
                   (job ->> 'nextFireAt')::timestamptz, t.anchor_at, gates, t.misfire, t.start_at, t.end_at,
                   t.jitter_seconds, t.dst
              FROM jsonb_to_record(job -> 'timetable')
                AS t (schedule_type text, cron_expression text, every_seconds float8, timezone text,
                      anchor_at timestamptz, start_at timestamptz, end_at timestamptz, jitter_seconds float8, dst text,
                      misfire text);
            PERFORM pg_notify('rota_schedule', '');
            status := 'scheduled';
        ELSE
            due_at := coalesce((job ->> 'runAt')::timestamptz,
                               moment + coalesce((job ->> 'delaySeconds')::float8, 0) * interval '1 second');
            expires := rota.expiry_of(job ->> 'options', due_at);
            IF due_at > moment + interval '1 second' THEN
                INSERT INTO rota.upcoming_runs (
                    namespace, id, job_id, job_version, owner, name, task, pool, priority, tags, payload, payload_id,
                    options, cause, shard, nominal_at, run_at, created_at, expires_at, policies)
                VALUES (ns, job_id, job_id, 1, job ->> 'owner', job ->> 'name', job ->> 'task', job ->> 'pool',
                        (job ->> 'priority')::smallint, tag_list, inline, large_id, job ->> 'options', 'submit',
                        run_shard, due_at, due_at, moment, expires, gates);
                status := 'scheduled';
            ELSIF gates IS NOT NULL THEN
                INSERT INTO rota.held_runs (
                    namespace, id, job_id, job_version, owner, name, task, pool, priority, tags, payload, payload_id,
                    options, cause, shard, nominal_at, run_at, created_at, expires_at, policies, gate)
                VALUES (ns, job_id, job_id, 1, job ->> 'owner', job ->> 'name', job ->> 'task', job ->> 'pool',
                        (job ->> 'priority')::smallint, tag_list, inline, large_id, job ->> 'options', 'submit',
                        run_shard, due_at, due_at, moment, expires, gates, 'new');
                PERFORM pg_notify('rota_gate', '');
                status := 'blocked';
            ELSE
                INSERT INTO rota.live_runs (
                    namespace, id, job_id, job_version, owner, name, task, pool, priority, tags, payload, payload_id,
                    options, cause, shard, nominal_at, run_at, created_at, expires_at, lane, ready_at)
                VALUES (ns, job_id, job_id, 1, job ->> 'owner', job ->> 'name', job ->> 'task', job ->> 'pool',
                        (job ->> 'priority')::smallint, tag_list, inline, large_id, job ->> 'options', 'submit',
                        run_shard, due_at, due_at, moment, expires,
                        rota.lane_of(ns, job ->> 'pool', job ->> 'task', (job ->> 'priority')::smallint),
                        greatest(due_at, moment));
                PERFORM pg_notify('rota_ready', job ->> 'pool');
                status := 'queued';
            END IF;
        END IF;
        answers[place] := jsonb_build_object('status', status)::text;
    END LOOP;
    RETURN '[' || array_to_string(answers, ',') || ']';
END
$$;
