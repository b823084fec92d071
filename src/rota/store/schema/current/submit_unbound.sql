-- Writes jobs that were checked already (gateway/transaction.py); for the owner and submit_v1 alone.
-- Does what store/submit does with submit_runs.sql, submit_jobs.sql and the statements for unique keys;
-- tests/store/test_parity.py holds both to the same rows and answers.
--
-- Takes a JSON array of jobs (JobRow). Returns a JSON array with one answer each, in the same order:
--   status                        it went in
--   duplicate, status, recurring  the job that has its unique key; its options, which name the id that was chosen for it
--   taken                         another job has its chosen id
--   repeated, same                the first answer to its idempotency key, and whether the request is the same
-- Jobs are decided in their order, but keys are locked first, in the order in which store/submit locks them: all unique
-- keys, then the idempotency keys of one-shots, then those of schedules, then chosen ids, each sorted.
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
    all_jobs  jsonb := jobs::jsonb;
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
    pools     text[];
    barred    boolean;
    before    rota.submission_keys;
    id_holder uuid;
    shown     text;
    status    text;
BEGIN
    -- The first job with a key takes it if it is free.
    IF strpos(jobs, '"unique"') > 0 THEN
        INSERT INTO rota.submission_keys AS k (namespace, kind, key, request_hash, answer, expires_at)
        SELECT u.namespace, 'unique', u.key, CASE WHEN u.seconds IS NULL THEN 'waits' ELSE 'window' END::bytea, u.id,
               moment + coalesce(u.seconds, 86400) * interval '1 second'
          FROM (SELECT DISTINCT ON (1, 2) (a.job ->> 'namespace') COLLATE "C" AS namespace,
                       (a.job -> 'unique' ->> 'key') COLLATE "C" AS key,
                       (a.job -> 'unique' ->> 'seconds')::float8 AS seconds, (a.job ->> 'id')::uuid::text AS id
                  FROM jsonb_array_elements(all_jobs) WITH ORDINALITY AS a (job, place)
                 WHERE a.job ? 'unique' ORDER BY 1, 2, a.place) AS u
         ORDER BY u.namespace, u.key
        ON CONFLICT ON CONSTRAINT submission_keys_pkey DO UPDATE SET key = excluded.key;
    END IF;
    -- One that is taken, and has not expired, stays as it is.
    IF strpos(jobs, '"key"') > 0 THEN
        INSERT INTO rota.submission_keys AS k (namespace, kind, key, request_hash, answer, expires_at)
        SELECT i.namespace, 'idempotency', i.key, decode(i.job ->> 'requestHash', 'hex'), i.job ->> 'answer',
               moment + interval '24 hours'
          FROM (SELECT DISTINCT ON (1, 2) (a.job ->> 'namespace') COLLATE "C" AS namespace,
                       (a.job ->> 'key') COLLATE "C" AS key, a.job
                  FROM jsonb_array_elements(all_jobs) WITH ORDINALITY AS a (job, place)
                 WHERE a.job ? 'key' ORDER BY 1, 2, a.place) AS i
         ORDER BY i.job ? 'timetable', i.namespace, i.key
        ON CONFLICT ON CONSTRAINT submission_keys_pkey DO UPDATE
           SET request_hash = excluded.request_hash, answer = excluded.answer, expires_at = excluded.expires_at
         WHERE k.expires_at < moment;
    END IF;
    IF strpos(jobs, '"chosenId"') > 0 THEN
        INSERT INTO rota.chosen_ids (namespace, chosen_id, job_id)
        SELECT c.namespace, c.chosen_id, c.id
          FROM (SELECT DISTINCT ON (1, 2) (a.job ->> 'namespace') COLLATE "C" AS namespace,
                       (a.job ->> 'chosenId') COLLATE "C" AS chosen_id, (a.job ->> 'id')::uuid AS id
                  FROM jsonb_array_elements(all_jobs) WITH ORDINALITY AS a (job, place)
                 WHERE a.job ? 'chosenId' ORDER BY 1, 2, a.place) AS c
         ORDER BY c.namespace, c.chosen_id
        ON CONFLICT ON CONSTRAINT chosen_ids_pkey DO NOTHING;
    END IF;

    FOR job, place IN
        SELECT a.job, a.place FROM jsonb_array_elements(all_jobs) WITH ORDINALITY AS a (job, place) ORDER BY a.place
    LOOP
        ns := job ->> 'namespace';
        job_id := (job ->> 'id')::uuid;

        IF job ? 'key' THEN
            SELECT k.* INTO before FROM rota.submission_keys AS k
             WHERE k.namespace = ns AND k.kind = 'idempotency' AND k.key = job ->> 'key';
            -- An answer names its job: another one is that of an earlier request, and stands.
            IF before.answer <> job ->> 'answer' THEN
                DELETE FROM rota.submission_keys AS k
                 WHERE job ? 'unique' AND k.namespace = ns AND k.kind = 'unique' AND k.key = job -> 'unique' ->> 'key'
                   AND k.answer = job_id::text;
                DELETE FROM rota.chosen_ids AS c
                 WHERE job ? 'chosenId' AND c.namespace = ns AND c.chosen_id = job ->> 'chosenId' AND c.job_id = job_id;
                answers[place] := jsonb_build_object('repeated', before.answer,
                    'same', before.request_hash = decode(job ->> 'requestHash', 'hex'))::text;
                CONTINUE;
            END IF;
            -- A job of this call had it, and met a duplicate.
            IF before.answer IS NULL THEN
                INSERT INTO rota.submission_keys (namespace, kind, key, request_hash, answer, expires_at)
                VALUES (ns, 'idempotency', job ->> 'key', decode(job ->> 'requestHash', 'hex'), job ->> 'answer',
                        moment + interval '24 hours');
            END IF;
        END IF;

        -- Chosen id: ours, or another job's. None: a job of this call had it, and was not written.
        IF job ? 'chosenId' THEN
            INSERT INTO rota.chosen_ids (namespace, chosen_id, job_id) VALUES (ns, job ->> 'chosenId', job_id)
            ON CONFLICT ON CONSTRAINT chosen_ids_pkey DO NOTHING;
            SELECT c.job_id INTO id_holder FROM rota.chosen_ids AS c
             WHERE c.namespace = ns AND c.chosen_id = job ->> 'chosenId';
            IF id_holder IS DISTINCT FROM job_id THEN
                DELETE FROM rota.submission_keys AS k
                 WHERE k.namespace = ns
                   AND (job ? 'key' AND k.kind = 'idempotency' AND k.key = job ->> 'key'
                        OR job ? 'unique' AND k.kind = 'unique' AND k.key = job -> 'unique' ->> 'key'
                           AND k.answer = job_id::text);
                answers[place] := '{"taken": true}';
                CONTINUE;
            END IF;
        END IF;

        -- Unique key: ours, or locked together with the look at the job that has it. None: a repeat let it go.
        IF job ? 'unique' THEN
            SELECT k.answer::uuid, k.request_hash = 'window'::bytea AND k.expires_at > moment INTO holder, in_window
              FROM rota.submission_keys AS k
             WHERE k.namespace = ns AND k.kind = 'unique' AND k.key = job -> 'unique' ->> 'key';
            IF holder IS DISTINCT FROM job_id THEN
                -- A role that is bound to pools replaces nothing that is ready in another.
                pools := CASE WHEN job -> 'unique' ->> 'onDuplicate' = 'replace'
                              THEN (SELECT b.pools FROM rota.bound_to() AS b) END;
                SELECT coalesce(j.state, r.status, 'gone'), j.id IS NOT NULL,
                       coalesce(j.state IN ('scheduled', 'paused'), r.place <> 'finished' AND r.claim IS NULL, false),
                       j.id IS NOT NULL OR coalesce(r.place = 'live' AND r.pool <> ALL (pools), false),
                       coalesce(j.options, r.options)
                  INTO stands, recurring, waits, barred, shown
                  FROM (SELECT 1) AS one
                  LEFT JOIN LATERAL (SELECT * FROM rota.jobs AS j
                                      WHERE j.namespace = ns AND j.id = holder OFFSET 0) AS j ON true
                  LEFT JOIN LATERAL (SELECT * FROM rota.runs AS r
                                      WHERE r.namespace = ns AND r.id = holder OFFSET 0) AS r ON true;
                IF (waits OR in_window)
                   AND (job -> 'unique' ->> 'onDuplicate' <> 'replace' OR (barred AND waits)) THEN
                    DELETE FROM rota.submission_keys AS k
                     WHERE job ? 'key' AND k.namespace = ns AND k.kind = 'idempotency' AND k.key = job ->> 'key';
                    DELETE FROM rota.chosen_ids AS c
                     WHERE job ? 'chosenId' AND c.namespace = ns AND c.chosen_id = job ->> 'chosenId'
                       AND c.job_id = job_id;
                    answers[place] := jsonb_build_object('duplicate', holder, 'status', stands, 'recurring', recurring,
                                                         'options', shown)::text;
                    CONTINUE;
                END IF;
                INSERT INTO rota.submission_keys AS k (namespace, kind, key, request_hash, answer, expires_at)
                VALUES (ns, 'unique', job -> 'unique' ->> 'key',
                        CASE WHEN job -> 'unique' ->> 'seconds' IS NULL THEN 'waits' ELSE 'window' END::bytea,
                        job_id::text,
                        moment + coalesce((job -> 'unique' ->> 'seconds')::float8, 86400) * interval '1 second')
                ON CONFLICT ON CONSTRAINT submission_keys_pkey DO UPDATE
                   SET request_hash = excluded.request_hash, answer = excluded.answer,
                       expires_at = excluded.expires_at;
                -- A holder that moves at this moment is looked for again, until it was replaced or no longer waits.
                FOR look IN 1..100 LOOP
                    EXIT WHEN NOT waits;
                    PERFORM rota.replace_waiting(ns, holder, job_id);
                    SELECT r.place <> 'finished' AND r.claim IS NULL
                           AND NOT coalesce(r.place = 'live' AND r.pool <> ALL (pools), false) INTO waits
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
                IF due_at <= moment + interval '10 seconds' THEN
                    PERFORM pg_notify('rota_schedule', 'soon');  -- a scheduler may sleep for longer
                END IF;
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
