-- What programs use: submitting and completing inside a transaction of theirs, and schedules declared in code.
--
-- The functions are called by libraries that may be a release older or newer than the schema: their names carry a version, and
-- what one version takes and gives never changes. They run with the rights of their owner, so that a role needs nothing of this
-- schema but USAGE and EXECUTE. Their plans are pinned here: the session that calls them is somebody else's.

-- Submits jobs in the caller's transaction. Takes a JSON array of jobs that were checked already (sdk/prepared.py); gives back one
-- answer each, in order: jobId, status; `duplicate` with the job that has the unique key; or `repeated`, the first answer to
-- a key that came again, and whether the request is the `same`. Keys are waited for in their order, unique ones first.
CREATE FUNCTION rota.submit_v1(jobs text) RETURNS text
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
    moment      timestamptz := clock_timestamp();
    shards      bigint := (SELECT c.shards FROM rota.constants AS c);
    answers     text[] := '{}';
    job         jsonb;
    place       bigint;
    ns          text;
    job_id      uuid;
    run_shard   smallint;
    due_at      timestamptz;
    gates       jsonb;
    tag_list    text[];
    inline      text;
    large_id    uuid;
    expires     timestamptz;
    holder      uuid;
    in_window   boolean;
    stands      text;
    recurring   boolean;
    waits       boolean;
    before      rota.submission_keys;
    status      text;
BEGIN
    FOR job, place IN
        SELECT a.job, a.place FROM jsonb_array_elements(jobs::jsonb) WITH ORDINALITY AS a (job, place)
         ORDER BY a.job -> 'unique' ->> 'key', a.job ->> 'key', a.place
    LOOP
        ns := job ->> 'namespace';
        job_id := (job ->> 'id')::uuid;
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
                  LEFT JOIN LATERAL (SELECT * FROM rota.jobs AS j WHERE j.namespace = ns AND j.id = holder OFFSET 0) AS j ON true
                  LEFT JOIN LATERAL (SELECT * FROM rota.runs AS r WHERE r.namespace = ns AND r.id = holder OFFSET 0) AS r ON true;
                IF (waits OR in_window) AND (job -> 'unique' ->> 'onDuplicate' <> 'replace' OR (recurring AND waits)) THEN
                    DELETE FROM rota.submission_keys AS k
                     WHERE job ? 'key' AND k.namespace = ns AND k.kind = 'idempotency' AND k.key = job ->> 'key';
                    answers[place] := jsonb_build_object('duplicate', holder, 'status', stands, 'recurring', recurring)::text;
                    CONTINUE;
                END IF;
                UPDATE rota.submission_keys AS k
                   SET request_hash = CASE WHEN job -> 'unique' ->> 'seconds' IS NULL THEN 'waits' ELSE 'window' END::bytea,
                       answer = job_id::text,
                       expires_at = moment + coalesce((job -> 'unique' ->> 'seconds')::float8, 86400) * interval '1 second'
                 WHERE k.namespace = ns AND k.kind = 'unique' AND k.key = job -> 'unique' ->> 'key';
                -- One that moves at this moment is looked for again, until it was hit or does not wait any more.
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
            INSERT INTO rota.jobs (namespace, id, owner, name, task, pool, priority, tags, payload, payload_id, options, shard,
                                   schedule_type, cron_expression, every_seconds, timezone, anchor_at, state, next_fire_at,
                                   fired_through, policies, misfire, start_at, end_at, jitter_seconds, dst)
            SELECT ns, job_id, job ->> 'owner', job ->> 'name', job ->> 'task', job ->> 'pool', (job ->> 'priority')::smallint,
                   tag_list, inline, large_id, job ->> 'options', run_shard, t.schedule_type, t.cron_expression,
                   t.every_seconds, t.timezone, t.anchor_at, 'scheduled', (job ->> 'nextFireAt')::timestamptz, t.anchor_at,
                   gates, t.misfire, t.start_at, t.end_at, t.jitter_seconds, t.dst
              FROM jsonb_to_record(job -> 'timetable')
                AS t (schedule_type text, cron_expression text, every_seconds float8, timezone text, anchor_at timestamptz,
                      start_at timestamptz, end_at timestamptz, jitter_seconds float8, dst text, misfire text);
            PERFORM pg_notify('rota_schedule', '');
            status := 'scheduled';
        ELSE
            due_at := coalesce((job ->> 'runAt')::timestamptz,
                               moment + coalesce((job ->> 'delaySeconds')::float8, 0) * interval '1 second');
            expires := rota.expiry_of(job ->> 'options', due_at);
            IF due_at > moment + interval '1 second' THEN
                INSERT INTO rota.upcoming_runs (namespace, id, job_id, job_version, owner, name, task, pool, priority, tags,
                            payload, payload_id, options, cause, shard, nominal_at, run_at, created_at, expires_at, policies)
                VALUES (ns, job_id, job_id, 1, job ->> 'owner', job ->> 'name', job ->> 'task', job ->> 'pool',
                        (job ->> 'priority')::smallint, tag_list, inline, large_id, job ->> 'options', 'submit', run_shard, due_at,
                        due_at, moment, expires, gates);
                status := 'scheduled';
            ELSIF gates IS NOT NULL THEN
                INSERT INTO rota.held_runs (namespace, id, job_id, job_version, owner, name, task, pool, priority, tags,
                            payload, payload_id, options, cause, shard, nominal_at, run_at, created_at, expires_at, policies, gate)
                VALUES (ns, job_id, job_id, 1, job ->> 'owner', job ->> 'name', job ->> 'task', job ->> 'pool',
                        (job ->> 'priority')::smallint, tag_list, inline, large_id, job ->> 'options', 'submit', run_shard, due_at,
                        due_at, moment, expires, gates, 'new');
                PERFORM pg_notify('rota_gate', '');
                status := 'blocked';
            ELSE
                INSERT INTO rota.live_runs (namespace, id, job_id, job_version, owner, name, task, pool, priority, tags,
                            payload, payload_id, options, cause, shard, nominal_at, run_at, created_at, expires_at, lane, ready_at)
                VALUES (ns, job_id, job_id, 1, job ->> 'owner', job ->> 'name', job ->> 'task', job ->> 'pool',
                        (job ->> 'priority')::smallint, tag_list, inline, large_id, job ->> 'options', 'submit', run_shard, due_at,
                        due_at, moment, expires,
                        rota.lane_of(ns, job ->> 'pool', job ->> 'task', (job ->> 'priority')::smallint), greatest(due_at, moment));
                PERFORM pg_notify('rota_ready', job ->> 'pool');
                status := 'queued';
            END IF;
        END IF;
        answers[place] := jsonb_build_object('status', status)::text;
    END LOOP;
    RETURN '[' || array_to_string(answers, ',') || ']';
END
$$;

-- Cancels a one-shot that nobody has claimed, because another job takes its place.
CREATE FUNCTION rota.replace_waiting(of_namespace text, of_run uuid, replaced_by uuid) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    WITH from_upcoming AS (
        DELETE FROM rota.upcoming_runs AS u WHERE u.namespace = of_namespace AND u.id = of_run
        RETURNING u.namespace, u.id, u.job_id, u.job_version, u.owner, u.name, u.task, u.pool, u.priority, u.tags, u.payload,
                  u.payload_id, u.options, u.cause, u.retry_of, u.root_id, u.shard, u.nominal_at, u.run_at, u.attempt, u.losses,
                  u.created_at, u.expires_at, u.checkpoint, u.snoozes, u.policies
    ), from_held AS (
        DELETE FROM rota.held_runs AS h WHERE h.namespace = of_namespace AND h.id = of_run
        RETURNING h.namespace, h.id, h.job_id, h.job_version, h.owner, h.name, h.task, h.pool, h.priority, h.tags, h.payload,
                  h.payload_id, h.options, h.cause, h.retry_of, h.root_id, h.shard, h.nominal_at, h.run_at, h.attempt, h.losses,
                  h.created_at, h.expires_at, h.checkpoint, h.snoozes, h.policies
    ), from_live AS (
        DELETE FROM rota.live_runs AS l WHERE l.namespace = of_namespace AND l.id = of_run AND l.claim IS NULL
        RETURNING l.namespace, l.id, l.job_id, l.job_version, l.owner, l.name, l.task, l.pool, l.priority, l.tags, l.payload,
                  l.payload_id, l.options, l.cause, l.retry_of, l.root_id, l.shard, l.nominal_at, l.run_at, l.attempt, l.losses,
                  l.created_at, l.expires_at, l.checkpoint, l.snoozes, l.policies
    ), taken AS (
        SELECT * FROM from_upcoming UNION ALL SELECT * FROM from_held UNION ALL SELECT * FROM from_live
    ), departed AS (
        INSERT INTO rota.departures (namespace, run_id, job_id, policies, outcome)
        SELECT namespace, id, job_id, policies, 'cancelled' FROM taken WHERE policies IS NOT NULL
    )
    INSERT INTO rota.finished_runs (namespace, id, job_id, job_version, owner, name, task, pool, priority, tags, payload, payload_id,
                options, cause, retry_of, root_id, shard, nominal_at, run_at, attempt, losses, created_at, expires_at, checkpoint,
                snoozes, policies, status, finished_at, cancel_requested, reason)
    SELECT t.*, 'cancelled', clock_timestamp(), true,
           'replaced by job_' || replace(replaced_by::text, '-', '') || ', which has the same unique key'
      FROM taken AS t;
EXCEPTION WHEN check_violation THEN
    -- Its day has no partition yet. Whoever makes one holds up all others who need one until its transaction ends: only then.
    IF rota.make_day_of(of_run) THEN
        PERFORM rota.replace_waiting(of_namespace, of_run, replaced_by);
    ELSE
        RAISE;
    END IF;
END
$$;

-- Makes the partitions of history that a run belongs to, where they are missing.
CREATE FUNCTION rota.make_day_of(run uuid) RETURNS boolean
LANGUAGE sql
RETURN rota.make_day((to_timestamp(('x' || left(replace(run::text, '-', ''), 12))::bit(48)::bigint / 1000.0)
                      AT TIME ZONE 'UTC')::date);

-- Records in the caller's transaction that a run has succeeded; false: the claim is not current any more, and the caller must
-- roll back. From here on the transaction may not rest: a process paused before its commit must not hold the run for long.
CREATE FUNCTION rota.complete_v1(of_namespace text, of_run uuid, of_claim bigint, began_at timestamptz, returned text, kept_at text)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
DECLARE
    taken rota.live_runs;
BEGIN
    DELETE FROM rota.live_runs AS l
     WHERE l.namespace = of_namespace AND l.id = of_run AND l.claim = of_claim
    RETURNING l.* INTO taken;
    IF taken.id IS NULL THEN
        RETURN false;
    END IF;
    FOR look IN 1..2 LOOP
        BEGIN
            INSERT INTO rota.finished_runs (namespace, id, job_id, job_version, owner, name, task, pool, priority, tags, payload,
                        payload_id, options, cause, retry_of, root_id, shard, nominal_at, run_at, attempt, losses, created_at,
                        expires_at, checkpoint, snoozes, policies, status, started_at, finished_at, worker_id, claim, progress,
                        progress_note, cancel_requested, result, result_blob)
            VALUES (taken.namespace, taken.id, taken.job_id, taken.job_version, taken.owner, taken.name, taken.task, taken.pool,
                    taken.priority, taken.tags, taken.payload, taken.payload_id, taken.options, taken.cause, taken.retry_of,
                    taken.root_id, taken.shard, taken.nominal_at, taken.run_at, taken.attempt + 1, taken.losses, taken.created_at,
                    taken.expires_at, taken.checkpoint, taken.snoozes, taken.policies, 'success', began_at, clock_timestamp(),
                    taken.worker_id, taken.claim, taken.progress, taken.progress_note, taken.cancel_requested_at IS NOT NULL,
                    returned, kept_at);
            EXIT;
        EXCEPTION WHEN check_violation THEN
            -- Its day has no partition yet; or no longer none, when somebody else made it meanwhile.
            IF look = 2 THEN
                RAISE;
            END IF;
            PERFORM rota.make_day_of(of_run);
        END;
    END LOOP;
    IF taken.policies IS NOT NULL THEN
        INSERT INTO rota.departures (namespace, run_id, job_id, policies, outcome)
        VALUES (taken.namespace, taken.id, taken.job_id, taken.policies, 'success');
        PERFORM pg_notify('rota_gate', '');
    END IF;
    PERFORM set_config('idle_in_transaction_session_timeout', '2s', true);
    RETURN true;
END
$$;

REVOKE ALL ON FUNCTION rota.submit_v1(text), rota.complete_v1(text, uuid, bigint, timestamptz, text, text) FROM PUBLIC;

-- Schedules declared in code. A worker says which application it runs, in which version; the schedules of the version in force are
-- made jobs. Versions that are numbers (1.10, 2026.11.3) are ordered as such (`release`), others by when they were first seen.
ALTER TABLE rota.workers
    ADD COLUMN app_namespace text COLLATE "C",
    ADD COLUMN app           text COLLATE "C",
    ADD COLUMN app_version   text COLLATE "C";

CREATE TABLE rota.app_versions (
    namespace text COLLATE "C" NOT NULL,
    app       text COLLATE "C" NOT NULL,
    version   text COLLATE "C" NOT NULL,
    number    bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    release   bigint[],
    schedules jsonb NOT NULL,
    seen_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (namespace, app, version)
);

-- Which version of an application is in force, and what of it was applied; null: none, and its schedules are paused.
CREATE TABLE rota.apps (
    namespace  text COLLATE "C" NOT NULL,
    app        text COLLATE "C" NOT NULL,
    version    text COLLATE "C",
    schedules  jsonb,
    changed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (namespace, app)
);

-- `declared`: what the code said when the job was last made like it. `paused_by_app`: nobody declares it; a person did not pause it.
ALTER TABLE rota.jobs
    ADD COLUMN app           text COLLATE "C",
    ADD COLUMN app_version   text,
    ADD COLUMN declared      jsonb,
    ADD COLUMN paused_by_app boolean NOT NULL DEFAULT false,
    ADD COLUMN note          text;
CREATE INDEX jobs_declared ON rota.jobs (namespace, app) WHERE app IS NOT NULL;
