-- The installation: constants, schedulers, workers, pools, and what happened.

-- Migrations that were applied. Made by store/schema/migrate.py, before the first of them.
CREATE TABLE rota.migrations (
    number     integer PRIMARY KEY,
    name       text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);

-- What holds for the whole database, in one row.
CREATE TABLE rota.constants (
    only_row  boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    shards    smallint NOT NULL CHECK (shards BETWEEN 1 AND 4096),   -- fixed for good: rows carry their shard
    zone_data text                                                   -- the version that next fire times came from
);
INSERT INTO rota.constants (shards) VALUES (64);

-- Scheduler processes.
CREATE TABLE rota.schedulers (
    id         uuid PRIMARY KEY,
    host       text NOT NULL,
    pid        integer NOT NULL,
    started_at timestamptz NOT NULL DEFAULT now(),
    beat       bigint NOT NULL DEFAULT 0,            -- grows while it lives; the others watch it
    beat_at    timestamptz NOT NULL DEFAULT now(),   -- for people; leases don't compare clocks
    lost_at    timestamptz,                          -- another took its shards since its last beat
    clock_skew double precision                      -- how far its wall clock is ahead of the database's, in seconds
);

-- Which scheduler owns which shard.
CREATE TABLE rota.shard_leases (
    shard smallint PRIMARY KEY,
    owner uuid,                         -- a scheduler; null: none yet
    epoch bigint NOT NULL DEFAULT 0     -- the fencing token: grows with every change of owner
);
INSERT INTO rota.shard_leases (shard)
SELECT generate_series(0, shards - 1) FROM rota.constants;

-- Workers. An id is used for one start only.
CREATE TABLE rota.workers (
    id            uuid PRIMARY KEY,
    host          text NOT NULL,
    pid           integer NOT NULL,
    namespaces    text[] NOT NULL,                       -- which it serves
    pools         text[] NOT NULL,                       -- which it serves
    tasks         text[] NOT NULL,                       -- which it knows
    slots         integer NOT NULL,                      -- how many runs at a time
    busy          integer NOT NULL DEFAULT 0,            -- how many now
    fenced        bigint NOT NULL DEFAULT 0,             -- reports that came too late, in all
    draining      boolean NOT NULL DEFAULT false,        -- stopping: it claims no more
    started_at    timestamptz NOT NULL DEFAULT now(),
    beat          bigint NOT NULL DEFAULT 0,             -- grows while it lives; the reaper watches it
    beat_at       timestamptz NOT NULL DEFAULT now(),    -- for people
    lease         interval NOT NULL,                     -- silent for longer, it is declared lost
    gone_at       timestamptz,                           -- stopped or declared lost
    gone_why      text,
    reaped        boolean NOT NULL DEFAULT false,        -- gone, and holds nothing any more: not looked at again
    ailing        text,                                  -- how a worker that beats is doing; null: well
    app_namespace text COLLATE "C",                      -- the application it runs
    app           text COLLATE "C",
    app_version   text COLLATE "C",
    announced     text COLLATE "C",                      -- the digest of its announced tasks; null: it described none
    clock_skew    double precision                       -- how far its wall clock is ahead of the database's, in seconds
);

-- What workers did, in portions of five seconds, for people and autoscalers who look at the last minutes; exact counts
-- come from the history. Unlogged: it starts empty after a crash, and no write waits for the disk because of it.
CREATE UNLOGGED TABLE rota.tallies (
    at        timestamptz NOT NULL,         -- the start of the five seconds
    namespace text COLLATE "C" NOT NULL,
    pool      text COLLATE "C" NOT NULL,
    worker_id uuid NOT NULL,
    started   bigint NOT NULL,              -- attempts
    succeeded bigint NOT NULL,
    failed    bigint NOT NULL,
    retried   bigint NOT NULL,
    -- How many started within 1, 2, 4, … milliseconds of their time, each counted once; the last: later still.
    lags      bigint[] NOT NULL CHECK (cardinality(lags) = 32),
    -- Of attempts that ended, how many took 1, 2, 4, … milliseconds. Null: told by a worker of an older release.
    durations bigint[],
    run_seconds double precision NOT NULL DEFAULT 0,   -- all they took
    PRIMARY KEY (at, namespace, pool, worker_id)
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- As tallies, by task instead of pool. Workers write them twice a minute, of the busiest tasks first (pool_tally.py).
CREATE UNLOGGED TABLE rota.task_tallies (
    at          timestamptz NOT NULL,         -- the start of the minute
    namespace   text COLLATE "C" NOT NULL,
    task        text COLLATE "C" NOT NULL,
    worker_id   uuid NOT NULL,
    started     bigint NOT NULL,
    succeeded   bigint NOT NULL,
    failed      bigint NOT NULL,
    retried     bigint NOT NULL,
    lags        bigint[] NOT NULL CHECK (cardinality(lags) = 32),
    durations   bigint[] NOT NULL CHECK (cardinality(durations) = 32),
    run_seconds double precision NOT NULL,
    PRIMARY KEY (at, namespace, task, worker_id)
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- What was there when a scheduler looked (scheduler/sampler.py); kept for 15 minutes. The row of no namespace says that
-- it looked. Without a row nothing was there.
CREATE UNLOGGED TABLE rota.samples (
    at           timestamptz NOT NULL,          -- the start of the five seconds
    namespace    text COLLATE "C" NOT NULL,
    pool         text COLLATE "C" NOT NULL,     -- empty: the whole namespace
    queued       bigint NOT NULL,               -- runs; each counted up to a limit
    running      bigint NOT NULL,
    slots        bigint NOT NULL,               -- of the workers that serve it
    busy         bigint NOT NULL,               -- of these slots
    dead_letters bigint NOT NULL,               -- of the namespace
    blocked      jsonb,                         -- how many runs at which gate; null: none
    PRIMARY KEY (at, namespace, pool)
);

-- What went on, per minute (two days) and per hour (35 days), written from tallies and samples when the minute or hour is
-- over (store/measure). The row of no namespace says that it was written: what has no row beside it was nothing.
CREATE TABLE rota.figures (
    namespace    text COLLATE "C" NOT NULL,
    kind         text COLLATE "C" NOT NULL CHECK (kind IN ('namespace', 'pool', 'task')),
    name         text COLLATE "C" NOT NULL,     -- of the pool or task; empty: the whole namespace
    step         integer NOT NULL CHECK (step IN (60, 3600)),   -- seconds
    at           timestamptz NOT NULL,          -- when it began
    started      bigint NOT NULL,               -- attempts
    succeeded    bigint NOT NULL,
    failed       bigint NOT NULL,
    retried      bigint NOT NULL,
    run_seconds  double precision NOT NULL,     -- of those that ended, together
    lags         jsonb,                         -- how many started how late: by the step of the histogram, from 0
    durations    jsonb,                         -- how many took how long
    looks        integer NOT NULL,              -- of a scheduler; 0: what follows is unknown
    queued       bigint NOT NULL,               -- the sum over the looks, as all that follow
    most_queued  bigint NOT NULL,               -- but this one: the most of a look
    running      bigint NOT NULL,
    slots        bigint NOT NULL,
    busy         bigint NOT NULL,
    dead_letters bigint NOT NULL,
    blocked      jsonb,                         -- by gate
    PRIMARY KEY (namespace, kind, name, step, at)
);
CREATE INDEX figures_in_time ON rota.figures (step, at);

-- Pools with settings; every other pool is open and unlimited.
CREATE TABLE rota.pools (
    namespace    text COLLATE "C" NOT NULL,
    pool         text COLLATE "C" NOT NULL,
    paused_at    timestamptz,                         -- workers claim nothing from it
    most_waiting integer CHECK (most_waiting >= 0),   -- submissions above it are refused; null: no limit
    PRIMARY KEY (namespace, pool)
);

-- What happened to something other than a run; kept for 90 days.
CREATE TABLE rota.events (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    namespace text COLLATE "C" NOT NULL,    -- '*': the installation
    kind      text NOT NULL,
    subject   text NOT NULL,    -- the job, key, pool, …
    detail    text,
    owner     text,             -- whose job it is about; null: of no user in particular
    data      text,             -- for programs, an object (JSON); null: none
    is_copy   boolean NOT NULL DEFAULT false    -- another row, under '*', tells the same to those who see everything
);
CREATE INDEX events_oldest ON rota.events (at);
CREATE INDEX events_of_namespace ON rota.events (namespace, id);

-- Where events are sent. What is secret (the address, the secrets that sign) is sealed with a key that is not in the
-- database (destinations/sealing.py).
CREATE TABLE rota.destinations (
    id             uuid PRIMARY KEY,
    namespace      text COLLATE "C" NOT NULL,                                  -- '*': events of the whole installation
    name           text COLLATE "C" NOT NULL,
    kind           text NOT NULL CHECK (kind IN ('webhook', 'apprise')),
    shown          text NOT NULL,                                              -- of its address, what may be seen
    sealed         bytea NOT NULL,
    kinds          text[] NOT NULL,                                            -- of events; one with a dot at its end: all that begin so
    least_severity text CHECK (least_severity IN ('info', 'warning', 'critical')),
    enabled        boolean NOT NULL DEFAULT true,
    changed_by     text NOT NULL,
    created_at     timestamptz NOT NULL DEFAULT now(),
    changed_at     timestamptz NOT NULL DEFAULT now(),
    position       bigint NOT NULL,                                            -- events up to this number have their deliveries
    failures       integer NOT NULL DEFAULT 0,                                 -- rounds in a row that ended with a failure
    next_at        timestamptz NOT NULL DEFAULT now(),                         -- nothing is sent before
    lease          bigint NOT NULL DEFAULT 0,                                  -- the fencing token: grows with every sender
    leased_until   timestamptz,                                                -- null: no sender has it
    CONSTRAINT destinations_named UNIQUE (namespace, name)
);

-- Events that a destination gets, each once: the ones still to be sent, and the latest of the others.
CREATE TABLE rota.deliveries (
    destination_id uuid NOT NULL REFERENCES rota.destinations (id) ON DELETE CASCADE,
    event_id       bigint NOT NULL,
    made_at        timestamptz NOT NULL DEFAULT now(),
    attempts       integer NOT NULL DEFAULT 0,
    next_at        timestamptz NOT NULL DEFAULT now(),
    tried_at       timestamptz,
    answer         integer,                             -- the HTTP status of the last attempt
    error          text,                                -- why the last attempt failed
    ended_at       timestamptz,                         -- null: still to be sent
    is_delivered   boolean NOT NULL DEFAULT false,      -- false at its end: given up
    PRIMARY KEY (destination_id, event_id)
);
CREATE INDEX deliveries_pending ON rota.deliveries (destination_id, event_id) WHERE ended_at IS NULL;
