-- Runs: the four tables a run can be in, and what is kept beside them.
--
-- The table a run is in is its state. It is in exactly one of upcoming_runs, held_runs, live_runs and finished_runs,
-- and moves by DELETE ... RETURNING + INSERT in one statement. The columns that travel with it have the same names and
-- types in all four; they are explained at upcoming_runs.
--
-- Ids are UUIDv7 whose time part is the moment the run was planned for, so the id alone says which day partition of the
-- history holds the run.

-- Claim numbers fence: every claim takes a new one, and only equality is ever asked. Gaps are fine; each session takes
-- many at a time. A claim number is the moment in milliseconds with 21 bits of this sequence below it (see claim.sql).
CREATE SEQUENCE rota.claim_numbers AS bigint CACHE 1000;

-- Runs that wait for their time alone: future runs, and runs in their backoff.
CREATE TABLE rota.upcoming_runs (
    namespace   text COLLATE "C" NOT NULL,          -- the tenant
    id          uuid NOT NULL,
    job_id      uuid NOT NULL,                      -- its recurring job; its own id when it runs once
    job_version integer NOT NULL,                   -- the version of the job it was made from
    owner       text NOT NULL,                      -- who submitted it
    name        text NOT NULL,                      -- what people call it
    task        text COLLATE "C" NOT NULL,          -- which task it calls
    pool        text COLLATE "C" NOT NULL,          -- which workers may take it
    priority    smallint NOT NULL,                  -- -1 to 2; a level is worth five minutes of waiting
    tags        text[] NOT NULL,                    -- to find it by
    payload     text,                               -- the task's parameters (JSON), if small
    payload_id  uuid,                               -- else its row in rota.payloads
    options     text NOT NULL,                      -- retries, timeout, expiry, headers (JSON)
    cause       text NOT NULL,                      -- why it exists
    retry_of    uuid,                               -- the run that it runs again
    root_id     uuid,                               -- the first run of a chain of retries and redrives
    shard       smallint NOT NULL,                  -- which scheduler looks after it
    nominal_at  timestamptz NOT NULL,               -- the time it stands for; retries keep it
    run_at      timestamptz NOT NULL,               -- when it is due: with jitter, or after a backoff
    attempt     integer NOT NULL DEFAULT 0,         -- attempts that were charged
    losses      smallint NOT NULL DEFAULT 0,        -- attempts in a row that were lost with their worker
    created_at  timestamptz NOT NULL,
    expires_at  timestamptz,                        -- must be started by then; null: no limit, or started once
    checkpoint  text,                               -- what an attempt left for the next (JSON)
    snoozes     integer NOT NULL DEFAULT 0,         -- how often it asked to run again later
    -- Its policies, keys resolved; null for a plain run, which never meets a gate:
    --   order    its ordering key; letGo: others of the key may pass while it waits out a backoff
    --   limit    its concurrency key, with `most` at a time
    --   rate     its rate key, with `count` starts `per` seconds, `burst` at once
    --   breaker  its breaker's key, with `failures` in a row that open it, for `cooldown` seconds
    --   overlap  what a fire time does when an earlier run of the job has not ended: skip, queue, replace
    --   after    the jobs it depends on, with the ids that people know them by; window: how far back a run of theirs counts
    --   awaited  other jobs depend on its job: its end is noted for them
    policies    jsonb,
    PRIMARY KEY (namespace, id),
    CONSTRAINT upcoming_runs_policies_check
        CHECK (policies IS NULL OR coalesce(jsonb_typeof(policies -> 'order'), 'string') = 'string')
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX upcoming_runs_due ON rota.upcoming_runs (shard, run_at);
CREATE INDEX upcoming_runs_of_job ON rota.upcoming_runs (namespace, job_id) WHERE job_id <> id;
-- Runs that were started, wait to be started again, and keep their ordering key meanwhile.
CREATE INDEX upcoming_runs_in_order ON rota.upcoming_runs (namespace, (policies ->> 'order'))
 WHERE (policies ->> 'order') IS NOT NULL AND (attempt > 0 OR snoozes > 0);
-- For lists: the runs of an owner in their order; and by labels, without an order.
CREATE INDEX upcoming_runs_owned ON rota.upcoming_runs ((rota.label('', namespace, 1, owner)), id);
CREATE INDEX upcoming_runs_labelled ON rota.upcoming_runs
 USING gin (rota.labels('', namespace, owner, task, name, tags,
                        CASE WHEN attempt > 0 THEN 'retrying' ELSE 'scheduled' END))
  WITH (gin_pending_list_limit = 256);

-- Runs held at a gate.
CREATE TABLE rota.held_runs (
    namespace   text COLLATE "C" NOT NULL,
    id          uuid NOT NULL,
    job_id      uuid NOT NULL,
    job_version integer NOT NULL,
    owner       text NOT NULL,
    name        text NOT NULL,
    task        text COLLATE "C" NOT NULL,
    pool        text COLLATE "C" NOT NULL,
    priority    smallint NOT NULL,
    tags        text[] NOT NULL,
    payload     text,
    payload_id  uuid,
    options     text NOT NULL,
    cause       text NOT NULL,
    retry_of    uuid,
    root_id     uuid,
    shard       smallint NOT NULL,
    nominal_at  timestamptz NOT NULL,
    run_at      timestamptz NOT NULL,
    attempt     integer NOT NULL DEFAULT 0,
    losses      smallint NOT NULL DEFAULT 0,
    created_at  timestamptz NOT NULL,
    gate        text NOT NULL,                        -- what it waits for:
    --   pause    its job is paused
    --   recall   its job was changed while a worker had claimed it: the scheduler looks what the job says now
    --   new      admission has not looked at it yet
    --   order, limit, rate, breaker   the policy of that name
    --   overlap  an earlier run of its job has not ended
    --   dependent   as new, for a run that depends on other jobs (await_others.sql)
    --   dependency  the run of another job that it depends on
    held_at     timestamptz NOT NULL DEFAULT now(),   -- since when
    expires_at  timestamptz,
    checkpoint  text,
    snoozes     integer NOT NULL DEFAULT 0,
    policies    jsonb,
    gate_key    text COLLATE "C",                     -- at which gate of its kind; null: pause, recall, new, dependent
    PRIMARY KEY (namespace, id),
    CONSTRAINT held_runs_gate_check
        CHECK (gate IN ('pause', 'recall', 'new', 'order', 'limit', 'rate', 'breaker', 'overlap', 'dependent',
                        'dependency')),
    CONSTRAINT held_runs_policies_check
        CHECK (policies IS NULL OR coalesce(jsonb_typeof(policies -> 'order'), 'string') = 'string')
);
CREATE INDEX held_runs_gate ON rota.held_runs (gate, shard, run_at);
CREATE INDEX held_runs_of_job ON rota.held_runs (namespace, job_id) WHERE job_id <> id;
CREATE INDEX held_runs_expiring ON rota.held_runs (shard, expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX held_runs_waiting ON rota.held_runs (namespace, gate, gate_key, nominal_at, id) WHERE gate_key IS NOT NULL;
CREATE INDEX held_runs_in_order ON rota.held_runs (namespace, (policies ->> 'order'), nominal_at, id)
 WHERE (policies ->> 'order') IS NOT NULL;

-- Ready or claimed: the hot table. A lane is one (namespace, pool, task, priority); a worker claims from the lanes it
-- knows, oldest first in each, so runs it can't take cost it nothing.
CREATE TABLE rota.live_runs (
    namespace           text COLLATE "C" NOT NULL,
    id                  uuid NOT NULL,
    job_id              uuid NOT NULL,
    job_version         integer NOT NULL,
    owner               text NOT NULL,
    name                text NOT NULL,
    task                text COLLATE "C" NOT NULL,
    pool                text COLLATE "C" NOT NULL,
    priority            smallint NOT NULL,
    tags                text[] NOT NULL,
    payload             text,
    payload_id          uuid,
    options             text NOT NULL,
    cause               text NOT NULL,
    retry_of            uuid,
    root_id             uuid,
    shard               smallint NOT NULL,
    nominal_at          timestamptz NOT NULL,
    run_at              timestamptz NOT NULL,
    attempt             integer NOT NULL DEFAULT 0,
    losses              smallint NOT NULL DEFAULT 0,
    created_at          timestamptz NOT NULL,
    lane                bigint NOT NULL,                  -- rota.lane_of, written by the insert and checked: as a
                                                          -- generated column it took a quarter of a claim's time
    ready_at            timestamptz NOT NULL,             -- may start from then; at most a second ahead when it comes
    worker_id           uuid,                             -- who has claimed it
    claim               bigint,                           -- under which number
    claimed_at          timestamptz,
    started_at          timestamptz,                      -- written once the run outlasts a beat
    progress            real,                             -- what the task said of itself
    progress_note       text,
    cancel_requested_at timestamptz,                      -- the worker is asked to stop it
    recalled            boolean NOT NULL DEFAULT false,   -- the worker is asked to give it back unless it has started
    expires_at          timestamptz,
    checkpoint          text,
    snoozes             integer NOT NULL DEFAULT 0,
    policies            jsonb,
    PRIMARY KEY (namespace, id),
    CONSTRAINT live_runs_check CHECK ((worker_id IS NULL) = (claim IS NULL)),
    CONSTRAINT live_runs_lane_check
        CHECK (lane = hashtextextended(namespace || '/' || pool || '/' || task, priority)),
    CONSTRAINT live_runs_policies_check
        CHECK (policies IS NULL OR coalesce(jsonb_typeof(policies -> 'order'), 'string') = 'string')
) WITH (
    fillfactor = 70,  -- room for the claim's update on the same page
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 20000,
    -- While an old transaction holds back cleaning, autovacuum repeats in vain: half speed still keeps up with 20,000
    -- runs a second.
    autovacuum_vacuum_cost_delay = 5, autovacuum_vacuum_cost_limit = 800
);
CREATE INDEX live_runs_ready ON rota.live_runs (lane, ready_at) WHERE worker_id IS NULL;
-- Claims in the order they were made: a worker that compares begins where it looked last.
CREATE INDEX live_runs_claimed ON rota.live_runs (worker_id, claimed_at) WHERE worker_id IS NOT NULL;
-- What workers are asked about their claims: nearly always empty, polled every second.
CREATE INDEX live_runs_asked ON rota.live_runs (worker_id)
 WHERE worker_id IS NOT NULL AND (cancel_requested_at IS NOT NULL OR recalled);
CREATE INDEX live_runs_of_job ON rota.live_runs (namespace, job_id) WHERE job_id <> id;
CREATE INDEX live_runs_expiring ON rota.live_runs (shard, expires_at) WHERE expires_at IS NOT NULL;
-- Never two live runs of one ordering key, whatever a process believes.
CREATE UNIQUE INDEX live_runs_in_order ON rota.live_runs (namespace, (policies ->> 'order'))
 WHERE (policies ->> 'order') IS NOT NULL;
CREATE INDEX live_runs_limited ON rota.live_runs (namespace, (policies ->> 'limit'))
 WHERE (policies ->> 'limit') IS NOT NULL;

-- History. Insert only; partitioned by the UTC day in the id (make_day.sql).
CREATE TABLE rota.finished_runs (
    namespace        text COLLATE "C" NOT NULL,
    id               uuid NOT NULL,
    job_id           uuid NOT NULL,
    job_version      integer NOT NULL,
    owner            text NOT NULL,
    name             text NOT NULL,
    task             text COLLATE "C" NOT NULL,
    pool             text COLLATE "C" NOT NULL,
    priority         smallint NOT NULL,
    tags             text[] NOT NULL,
    payload          text,
    payload_id       uuid,
    options          text NOT NULL,
    cause            text NOT NULL,
    retry_of         uuid,
    root_id          uuid,
    shard            smallint NOT NULL,
    nominal_at       timestamptz NOT NULL,
    run_at           timestamptz NOT NULL,
    attempt          integer NOT NULL DEFAULT 0,
    losses           smallint NOT NULL DEFAULT 0,
    created_at       timestamptz NOT NULL,
    status           text NOT NULL CHECK (status IN ('success', 'failed', 'cancelled', 'skipped')),
    started_at       timestamptz,                      -- of its last attempt; null: it never started
    finished_at      timestamptz NOT NULL,
    worker_id        uuid,                             -- who ran its last attempt
    claim            bigint,                           -- under which number
    progress         real,
    progress_note    text,
    cancel_requested boolean NOT NULL DEFAULT false,
    error            text,                             -- of its last attempt
    traceback        text,
    result           text,                             -- what the task returned (JSON), if small
    reason           text,                             -- why it was cancelled or skipped
    expires_at       timestamptz,
    checkpoint       text,
    snoozes          integer NOT NULL DEFAULT 0,
    result_blob      text,                             -- the key in object storage of a large result
    policies         jsonb,
    PRIMARY KEY (namespace, id)
) PARTITION BY RANGE (id);
CREATE INDEX finished_runs_of_job ON rota.finished_runs (namespace, job_id, id) WHERE job_id <> id;
-- For lists: by labels, period by period. A short list of pending entries: each look reads all of it.
CREATE INDEX finished_runs_labelled ON rota.finished_runs
 USING gin (rota.labels(left(id::text, 7), namespace, owner, task, name, tags, status))
  WITH (gin_pending_list_limit = 256);

-- Attempts that did not succeed at once. Partitioned like the history.
CREATE TABLE rota.attempts (
    namespace   text COLLATE "C" NOT NULL,
    run_id      uuid NOT NULL,
    claim       bigint NOT NULL,
    number      integer NOT NULL,         -- 1 for the first
    worker_id   uuid,
    started_at  timestamptz,              -- null: lost before its start was noted
    finished_at timestamptz NOT NULL,
    outcome     text NOT NULL,            -- failed, timed_out, lost, … (domain/run.py)
    error       text,
    traceback   text,
    PRIMARY KEY (namespace, run_id, claim)
) PARTITION BY RANGE (run_id);

-- Runs that failed for good and wait for a person; the run itself is in finished_runs.
CREATE TABLE rota.dead_letters (
    namespace text COLLATE "C" NOT NULL,
    run_id    uuid NOT NULL,
    job_id    uuid NOT NULL,
    name      text NOT NULL,
    task      text NOT NULL,
    error     text,
    buried_at timestamptz NOT NULL DEFAULT now(),
    owner     text,                                  -- null: buried by an older release
    PRIMARY KEY (namespace, run_id)
);
CREATE INDEX dead_letters_of_job ON rota.dead_letters (namespace, job_id, run_id);

-- A run with policies has left its table, so a run behind it may go on. Written by the statement that moved it; read
-- and removed by admission in the transaction that acts on it, so no run is forgotten through any crash. Insert only
-- and without a key: a report never waits here.
CREATE TABLE rota.departures (
    left_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    namespace text COLLATE "C" NOT NULL,
    run_id    uuid NOT NULL,
    job_id    uuid NOT NULL,
    policies  jsonb NOT NULL,   -- the run's: which gates it was at
    outcome   text              -- of its attempt, for breakers; null: it was moved, not ended
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX departures_oldest ON rota.departures (left_at);

-- Gates that remember something: rates their tokens, breakers whether they are open. Order and limits remember nothing:
-- they are counted from the runs that are there.
CREATE TABLE rota.gates (
    namespace  text COLLATE "C" NOT NULL,
    kind       text COLLATE "C" NOT NULL CHECK (kind IN ('rate', 'breaker')),
    key        text COLLATE "C" NOT NULL,
    tokens     double precision,                        -- rate: how many were left
    counted_at timestamptz,                             -- rate: when
    full_at    timestamptz,                             -- rate: then it is full again, and the sweeper removes the row
    state      text CHECK (state IN ('closed', 'open', 'half-open')),  -- breaker
    failures   integer,                                 -- breaker: in a row
    probe      uuid,                                    -- breaker: the run that tries out whether it may close
    until      timestamptz,                             -- breaker: open until then
    wakes_at   timestamptz,                             -- when admission looks at it again; null: only when called
    changed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (namespace, kind, key)
);
CREATE INDEX gates_waking ON rota.gates (wakes_at) WHERE wakes_at IS NOT NULL;
CREATE INDEX gates_idle ON rota.gates (full_at) WHERE full_at IS NOT NULL;
CREATE INDEX gates_open ON rota.gates (namespace, key) WHERE kind = 'breaker' AND state <> 'closed';

-- Why a run exists. Not valid: they came when there was history, which a migration must not read.
ALTER TABLE rota.upcoming_runs ADD CONSTRAINT upcoming_runs_cause_check
    CHECK (cause IN ('submit', 'schedule', 'manual', 'retry', 'redrive', 'node', 'member',
                     'backfill', 'replay')) NOT VALID;
ALTER TABLE rota.held_runs ADD CONSTRAINT upcoming_runs_cause_check
    CHECK (cause IN ('submit', 'schedule', 'manual', 'retry', 'redrive', 'node', 'member',
                     'backfill', 'replay')) NOT VALID;
ALTER TABLE rota.live_runs ADD CONSTRAINT upcoming_runs_cause_check
    CHECK (cause IN ('submit', 'schedule', 'manual', 'retry', 'redrive', 'node', 'member',
                     'backfill', 'replay')) NOT VALID;
ALTER TABLE rota.finished_runs ADD CONSTRAINT upcoming_runs_cause_check
    CHECK (cause IN ('submit', 'schedule', 'manual', 'retry', 'redrive', 'node', 'member',
                     'backfill', 'replay')) NOT VALID;
