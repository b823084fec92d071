-- History of the figures that people ask for: per minute for two days, per hour for 35 days; and what it is made from.

-- Of attempts that ended: how many took 1, 2, 4, … milliseconds, and all their seconds. Null: told by a worker that does
-- not count them yet.
ALTER TABLE rota.tallies ADD COLUMN durations bigint[], ADD COLUMN run_seconds double precision NOT NULL DEFAULT 0;

-- As tallies, by task instead of pool, in portions of a minute.
CREATE UNLOGGED TABLE rota.task_tallies (
    at          timestamptz NOT NULL,
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

-- What was there when a scheduler looked. The row of no namespace says that it looked.
CREATE UNLOGGED TABLE rota.samples (
    at           timestamptz NOT NULL,
    namespace    text COLLATE "C" NOT NULL,
    pool         text COLLATE "C" NOT NULL,
    queued       bigint NOT NULL,
    running      bigint NOT NULL,
    slots        bigint NOT NULL,
    busy         bigint NOT NULL,
    dead_letters bigint NOT NULL,
    blocked      jsonb,
    PRIMARY KEY (at, namespace, pool)
);

-- The figures. The row of no namespace says that the minute or hour was written, also where nothing went on in it.
CREATE TABLE rota.figures (
    namespace    text COLLATE "C" NOT NULL,
    kind         text COLLATE "C" NOT NULL CHECK (kind IN ('namespace', 'pool', 'task')),
    name         text COLLATE "C" NOT NULL,
    step         integer NOT NULL CHECK (step IN (60, 3600)),
    at           timestamptz NOT NULL,
    started      bigint NOT NULL,
    succeeded    bigint NOT NULL,
    failed       bigint NOT NULL,
    retried      bigint NOT NULL,
    run_seconds  double precision NOT NULL,
    lags         jsonb,
    durations    jsonb,
    looks        integer NOT NULL,
    queued       bigint NOT NULL,
    most_queued  bigint NOT NULL,
    running      bigint NOT NULL,
    slots        bigint NOT NULL,
    busy         bigint NOT NULL,
    dead_letters bigint NOT NULL,
    blocked      jsonb,
    PRIMARY KEY (namespace, kind, name, step, at)
);
CREATE INDEX figures_in_time ON rota.figures (step, at);
