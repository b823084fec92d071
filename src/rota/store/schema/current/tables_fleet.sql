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
    PRIMARY KEY (at, namespace, pool, worker_id)
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

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
    namespace text COLLATE "C" NOT NULL,
    kind      text NOT NULL,
    subject   text NOT NULL,    -- the job, key, pool, …
    detail    text,
    owner     text,             -- whose job it is about; null: of no user in particular
    data      text              -- for programs, an object (JSON); null: none
);
CREATE INDEX events_oldest ON rota.events (at);
CREATE INDEX events_of_namespace ON rota.events (namespace, id);
