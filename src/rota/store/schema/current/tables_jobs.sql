-- Recurring jobs, payloads, the keys of submissions, and schedules declared in code.
-- A job that runs once has no row in rota.jobs: it is its run, and both have the same id.

-- Recurring jobs. Indexes: due jobs by shard; the jobs of an application.
CREATE TABLE rota.jobs (
    namespace       text COLLATE "C" NOT NULL,                    -- the tenant
    id              uuid NOT NULL,                                -- UUIDv7; of a declared schedule: made of its name
    version         integer NOT NULL DEFAULT 1,                   -- grows with every change; runs carry it
    owner           text NOT NULL,                                -- who submitted it
    name            text NOT NULL,                                -- what people call it; need not be unique
    task            text COLLATE "C" NOT NULL,                    -- which task its runs call
    pool            text COLLATE "C" NOT NULL,                    -- which workers may take its runs
    priority        smallint NOT NULL CHECK (priority BETWEEN -1 AND 2),  -- low, normal, high, critical
    tags            text[] NOT NULL,                              -- to find it by
    payload         text,                                         -- the task's parameters (JSON), if small
    payload_id      uuid,                                         -- else its row in rota.payloads
    options         text NOT NULL,                                -- retries, timeout, expiry, headers (JSON)
    shard           smallint NOT NULL,                            -- which scheduler fires it
    schedule_type   text NOT NULL CHECK (schedule_type IN ('cron', 'interval')),
    cron_expression text,                                         -- of a cron schedule
    every_seconds   double precision,                             -- of an interval
    timezone        text NOT NULL,                                -- IANA zone of the cron expression
    anchor_at       timestamptz NOT NULL,                         -- intervals count from here
    state           text NOT NULL CHECK (state IN ('scheduled', 'paused', 'cancelled', 'completed')),
    next_fire_at    timestamptz,                                  -- null: it fires no more, or is paused
    fired_through   timestamptz NOT NULL,                         -- the mark: fire times up to here are done
    created_at      timestamptz NOT NULL DEFAULT now(),
    updated_at      timestamptz NOT NULL DEFAULT now(),
    policies        jsonb,                                        -- as in rota.upcoming_runs
    misfire         text,                                         -- rule for missed times (JSON); null: the default
    start_at        timestamptz,                                  -- does not fire before
    end_at          timestamptz,                                  -- does not fire after
    jitter_seconds  double precision NOT NULL DEFAULT 0 CHECK (jitter_seconds >= 0),  -- moves starts, not nominal times
    dst             text,                                         -- rule at a clock change; null: shift
    app             text COLLATE "C",                             -- the application that declares it, if one does
    app_version     text,                                         -- the version of it that was applied last
    declared        jsonb,                                        -- what the code said when it was applied
    paused_by_app   boolean NOT NULL DEFAULT false,               -- paused because no code declares it any more
    note            text,                                         -- why, for people
    excluded        text,                                         -- days that it leaves out (JSON); null: none
    excluded_next_at timestamptz,                                 -- next_fire_at, from a process that knows these days
    PRIMARY KEY (namespace, id),
    CONSTRAINT jobs_check CHECK ((schedule_type = 'cron') = (cron_expression IS NOT NULL)),
    CONSTRAINT jobs_check1 CHECK ((schedule_type = 'interval') = (every_seconds IS NOT NULL)),
    CONSTRAINT jobs_check2 CHECK (state <> 'scheduled' OR next_fire_at IS NOT NULL),
    -- A fire time becomes a run once: the next one is always behind the mark.
    CONSTRAINT jobs_check3 CHECK (next_fire_at IS NULL OR next_fire_at > fired_through),
    CONSTRAINT jobs_policies_check
        CHECK (policies IS NULL OR coalesce(jsonb_typeof(policies -> 'order'), 'string') = 'string')
);
CREATE INDEX jobs_due ON rota.jobs (shard, next_fire_at) WHERE state = 'scheduled';
CREATE INDEX jobs_declared ON rota.jobs (namespace, app) WHERE app IS NOT NULL;

-- Payloads too large for the row of their job or run; written once, never moved.
CREATE TABLE rota.payloads (
    namespace text COLLATE "C" NOT NULL,
    id        uuid NOT NULL,      -- the job's, or a new one when a job's payload is changed
    body      text,               -- the JSON text
    blob      text,               -- or its key in object storage
    PRIMARY KEY (namespace, id),
    CONSTRAINT payloads_somewhere CHECK ((body IS NULL) <> (blob IS NULL))
);

-- Keys under which jobs were submitted.
--   idempotency  a repeated request gets the first answer, for 24 hours
--   unique       the job that has the key; others with it are rejected, dropped, or replace it
CREATE TABLE rota.submission_keys (
    namespace    text COLLATE "C" NOT NULL,
    kind         text COLLATE "C" NOT NULL,   -- 'idempotency' or 'unique'
    key          text COLLATE "C" NOT NULL,   -- with its owner, so that users don't meet each other's keys
    request_hash bytea NOT NULL,              -- tells a repeat from another request; unique: 'waits' or 'window'
    answer       text NOT NULL,               -- the first answer (JSON); unique: the id of the job that has the key
    expires_at   timestamptz NOT NULL,        -- the sweeper removes it then; a unique key whose job waits stays
    PRIMARY KEY (namespace, kind, key),
    -- Statements cast the answer of a unique key: a narrow role must not be able to write one that fails.
    CONSTRAINT submission_keys_check CHECK (kind <> 'unique' OR answer ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$')
);
CREATE INDEX submission_keys_expiry ON rota.submission_keys (expires_at);

-- Ids that submitters chose for their jobs, instead of generated ones. A row stays as long as its job is known: that of a
-- schedule for ever, that of a job that runs once as long as its history is kept.
CREATE TABLE rota.chosen_ids (
    namespace text COLLATE "C" NOT NULL,
    chosen_id text COLLATE "C" NOT NULL,   -- also among the options of the job and of its runs, to be shown
    job_id    uuid NOT NULL,               -- the generated id, under which everything else knows the job
    PRIMARY KEY (namespace, chosen_id)
);

-- Dependencies between jobs: the run of a job waits for runs of others. A schedule depends on schedules, a job that runs
-- once on jobs that run once. What a run waits for is in its policies (`after`); the rows here answer who depends on a job.
CREATE TABLE rota.dependencies (
    namespace text COLLATE "C" NOT NULL,
    job_id    uuid NOT NULL,   -- the job that waits
    needs     uuid NOT NULL,   -- the job that it waits for
    look_at   timestamptz,     -- of a job that runs once: when the sweeper looks whether it still waits
    PRIMARY KEY (namespace, job_id, needs)
);
CREATE INDEX dependencies_needed ON rota.dependencies (namespace, needs);
CREATE INDEX dependencies_to_sweep ON rota.dependencies (look_at) WHERE look_at IS NOT NULL;

-- Versions of applications that workers have run, with the schedules their code declares.
CREATE TABLE rota.app_versions (
    namespace text COLLATE "C" NOT NULL,
    app       text COLLATE "C" NOT NULL,
    version   text COLLATE "C" NOT NULL,
    number    bigint NOT NULL GENERATED ALWAYS AS IDENTITY,   -- order of first sight, for versions that are not numbers
    release   bigint[],                                       -- 1.10 as {1,10}; null: not a number
    schedules jsonb NOT NULL,                                 -- what it declares
    seen_at   timestamptz NOT NULL DEFAULT now(),
    workflows jsonb,                                          -- as well; null: none
    PRIMARY KEY (namespace, app, version)
);

-- The version of each application that is in force.
CREATE TABLE rota.apps (
    namespace  text COLLATE "C" NOT NULL,
    app        text COLLATE "C" NOT NULL,
    version    text COLLATE "C",                        -- null: none is, and its schedules are paused
    schedules  jsonb,                                   -- what of it was applied
    changed_at timestamptz NOT NULL DEFAULT now(),
    workflows  jsonb,                                   -- as well
    PRIMARY KEY (namespace, app)
);

-- The tasks of each release of an application, as its workers announce them: parameters, and options that are defaults of
-- their jobs. Which workers have them, and in which namespaces they count, is in rota.workers. Kept for a week after the
-- last worker.
CREATE TABLE rota.announced_tasks (
    namespace text COLLATE "C" NOT NULL,                                               -- of the application
    app       text COLLATE "C" NOT NULL,
    version   text COLLATE "C" NOT NULL,
    digest    text COLLATE "C" NOT NULL,                                               -- of `tasks`: code may change without its version
    number    bigint NOT NULL GENERATED ALWAYS AS IDENTITY,                            -- order of first sight
    release   bigint[],                                                                -- 1.10 as {1,10}; null: not a number
    tasks     json NOT NULL CHECK (octet_length(tasks::text) <= 2 * 1024 * 1024)       -- by name
                            CHECK (tasks::jsonb IS NOT NULL),   -- fails for JSON that can't be looked into (\u0000)
    seen_at   timestamptz NOT NULL DEFAULT now(),                                      -- to within an hour
    PRIMARY KEY (namespace, app, version, digest)
);

-- Business calendars: named lists of days that schedules leave out. Each schedule that names one has the days in its own
-- row as well (jobs.excluded).
CREATE TABLE rota.calendars (
    namespace      text COLLATE "C" NOT NULL,
    name           text COLLATE "C" NOT NULL,
    revision       uuid NOT NULL,                        -- another one with each change of its days
    days           text NOT NULL,                        -- dates in order (JSON)
    number_of_days integer NOT NULL,
    changed_by     text NOT NULL,
    created_at     timestamptz NOT NULL DEFAULT now(),
    changed_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (namespace, name)
);

-- Which schedules name which calendars, ended ones too; written by the trigger note_calendars.
CREATE TABLE rota.calendar_uses (
    namespace text COLLATE "C" NOT NULL,
    calendar  text COLLATE "C" NOT NULL,
    job_id    uuid NOT NULL,
    PRIMARY KEY (namespace, calendar, job_id)
);
CREATE INDEX calendar_uses_of_job ON rota.calendar_uses (namespace, job_id);
