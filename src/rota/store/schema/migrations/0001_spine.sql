-- The spine: jobs, the four places a run can be, attempts, dead letters, leases and workers.
--
-- A run's place is its state. It is in exactly one of upcoming_runs, held_runs, live_runs and
-- finished_runs; it moves by DELETE ... RETURNING + INSERT in one statement. The columns that travel
-- with it are the same in all four, in the same order (queries/columns.txt names them once).
--
-- Ids are UUIDv7 whose time part is the moment the run was planned for, so that the id alone says which
-- day partition of the history holds it.

CREATE TABLE rota.constants (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    shards   smallint NOT NULL CHECK (shards BETWEEN 1 AND 4096)
);
INSERT INTO rota.constants (shards) VALUES (64);

-- Claim numbers fence: every claim takes a new one and none is ever given twice. Gaps are fine, and so is the order:
-- each session takes a handful at a time, and only equality is ever asked.
CREATE SEQUENCE rota.claim_numbers AS bigint CACHE 1000;

CREATE TABLE rota.payloads (
    namespace text COLLATE "C" NOT NULL,
    id        uuid NOT NULL,
    body      text NOT NULL,
    PRIMARY KEY (namespace, id)
);

CREATE TABLE rota.jobs (
    namespace       text COLLATE "C" NOT NULL,
    id              uuid NOT NULL,
    version         integer NOT NULL DEFAULT 1,
    owner           text NOT NULL,
    name            text NOT NULL,
    task            text COLLATE "C" NOT NULL,
    pool            text COLLATE "C" NOT NULL,
    priority        smallint NOT NULL CHECK (priority BETWEEN -1 AND 2),
    tags            text[] NOT NULL,
    payload         text,
    payload_id      uuid,
    options         text NOT NULL,
    shard           smallint NOT NULL,
    schedule_type   text NOT NULL CHECK (schedule_type IN ('cron', 'interval')),
    cron_expression text,
    every_seconds   double precision,
    timezone        text NOT NULL,
    anchor_at       timestamptz NOT NULL,
    state           text NOT NULL CHECK (state IN ('scheduled', 'paused', 'cancelled', 'completed')),
    next_fire_at    timestamptz,
    fired_through   timestamptz NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT now(),
    updated_at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (namespace, id),
    CHECK ((schedule_type = 'cron') = (cron_expression IS NOT NULL)),
    CHECK ((schedule_type = 'interval') = (every_seconds IS NOT NULL)),
    CHECK (state <> 'scheduled' OR next_fire_at IS NOT NULL),
    -- A fire time is made once: the mark only meets times behind the next one.
    CHECK (next_fire_at IS NULL OR next_fire_at > fired_through)
);
CREATE INDEX jobs_due ON rota.jobs (shard, next_fire_at) WHERE state = 'scheduled';

-- What waits for time only: future runs, and runs that wait out a backoff (attempt > 0).
CREATE TABLE rota.upcoming_runs (
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
    cause       text NOT NULL CHECK (cause IN ('submit', 'schedule', 'manual', 'retry', 'redrive')),
    retry_of    uuid,
    root_id     uuid,
    shard       smallint NOT NULL,
    nominal_at  timestamptz NOT NULL,
    run_at      timestamptz NOT NULL,
    attempt     integer NOT NULL DEFAULT 0,
    losses      smallint NOT NULL DEFAULT 0,
    created_at  timestamptz NOT NULL,
    PRIMARY KEY (namespace, id)
);
CREATE INDEX upcoming_runs_due ON rota.upcoming_runs (shard, run_at);
CREATE INDEX upcoming_runs_of_job ON rota.upcoming_runs (namespace, job_id) WHERE job_id <> id;

-- Due or not, held at a gate: 'pause' until its job is resumed, 'recall' until the scheduler has looked
-- at what its job says now.
CREATE TABLE rota.held_runs (
    LIKE rota.upcoming_runs INCLUDING DEFAULTS INCLUDING CONSTRAINTS,
    gate    text NOT NULL CHECK (gate IN ('pause', 'recall')),
    held_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (namespace, id)
);
CREATE INDEX held_runs_gate ON rota.held_runs (gate, shard, run_at);
CREATE INDEX held_runs_of_job ON rota.held_runs (namespace, job_id) WHERE job_id <> id;

-- Ready or claimed: the hot table. A lane is one (namespace, pool, task, priority); a worker claims from
-- the lanes it knows, oldest first in each, so what others wait for costs it nothing.
CREATE TABLE rota.live_runs (
    LIKE rota.upcoming_runs INCLUDING DEFAULTS INCLUDING CONSTRAINTS,
    lane                bigint NOT NULL GENERATED ALWAYS AS
                        (hashtextextended(namespace || '/' || pool || '/' || task, priority)) STORED,
    ready_at            timestamptz NOT NULL,
    worker_id           uuid,
    claim               bigint,
    claimed_at          timestamptz,
    started_at          timestamptz,
    progress            real,
    progress_note       text,
    cancel_requested_at timestamptz,
    recalled            boolean NOT NULL DEFAULT false,
    PRIMARY KEY (namespace, id),
    CHECK ((worker_id IS NULL) = (claim IS NULL))
) WITH (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 20000,
    autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX live_runs_ready ON rota.live_runs (lane, ready_at) WHERE worker_id IS NULL;
CREATE INDEX live_runs_claimed ON rota.live_runs (worker_id) WHERE worker_id IS NOT NULL;
CREATE INDEX live_runs_of_job ON rota.live_runs (namespace, job_id) WHERE job_id <> id;
ALTER TABLE rota.upcoming_runs SET (
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0
);

-- History. Insert only; partitioned by the UTC day in the id.
CREATE TABLE rota.finished_runs (
    LIKE rota.upcoming_runs INCLUDING DEFAULTS INCLUDING CONSTRAINTS,
    status           text NOT NULL CHECK (status IN ('success', 'failed', 'cancelled', 'skipped')),
    started_at       timestamptz,
    finished_at      timestamptz NOT NULL,
    worker_id        uuid,
    claim            bigint,
    progress         real,
    progress_note    text,
    cancel_requested boolean NOT NULL DEFAULT false,
    error            text,
    traceback        text,
    result           text,
    reason           text,
    PRIMARY KEY (namespace, id)
) PARTITION BY RANGE (id);
CREATE INDEX finished_runs_of_job ON rota.finished_runs (namespace, job_id, id) WHERE job_id <> id;

-- One row for each attempt that did not succeed at once.
CREATE TABLE rota.attempts (
    namespace   text COLLATE "C" NOT NULL,
    run_id      uuid NOT NULL,
    claim       bigint NOT NULL,
    number      integer NOT NULL,
    worker_id   uuid,
    started_at  timestamptz,
    finished_at timestamptz NOT NULL,
    outcome     text NOT NULL,
    error       text,
    traceback   text,
    PRIMARY KEY (namespace, run_id, claim)
) PARTITION BY RANGE (run_id);

CREATE TABLE rota.dead_letters (
    namespace text COLLATE "C" NOT NULL,
    run_id    uuid NOT NULL,
    job_id    uuid NOT NULL,
    name      text NOT NULL,
    task      text NOT NULL,
    error     text,
    buried_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (namespace, run_id)
);
CREATE INDEX dead_letters_of_job ON rota.dead_letters (namespace, job_id, run_id);

CREATE TABLE rota.submission_keys (
    namespace    text COLLATE "C" NOT NULL,
    kind         text COLLATE "C" NOT NULL,
    key          text COLLATE "C" NOT NULL,
    request_hash bytea NOT NULL,
    answer       text NOT NULL,
    expires_at   timestamptz NOT NULL,
    PRIMARY KEY (namespace, kind, key)
);
CREATE INDEX submission_keys_expiry ON rota.submission_keys (expires_at);

CREATE TABLE rota.schedulers (
    id         uuid PRIMARY KEY,
    host       text NOT NULL,
    pid        integer NOT NULL,
    started_at timestamptz NOT NULL DEFAULT now(),
    beat       bigint NOT NULL DEFAULT 0,
    beat_at    timestamptz NOT NULL DEFAULT now()
);

-- Who owns which shard. The epoch grows with every change of owner: it is the fencing token.
CREATE TABLE rota.shard_leases (
    shard smallint PRIMARY KEY,
    owner uuid,
    epoch bigint NOT NULL DEFAULT 0
);
INSERT INTO rota.shard_leases (shard)
SELECT generate_series(0, shards - 1) FROM rota.constants;

CREATE TABLE rota.workers (
    id         uuid PRIMARY KEY,
    host       text NOT NULL,
    pid        integer NOT NULL,
    namespaces text[] NOT NULL,
    pools      text[] NOT NULL,
    tasks      text[] NOT NULL,
    slots      integer NOT NULL,
    busy       integer NOT NULL DEFAULT 0,
    fenced     bigint NOT NULL DEFAULT 0,
    draining   boolean NOT NULL DEFAULT false,
    started_at timestamptz NOT NULL DEFAULT now(),
    beat       bigint NOT NULL DEFAULT 0,
    beat_at    timestamptz NOT NULL DEFAULT now(),
    lease      interval NOT NULL,
    gone_at    timestamptz,
    gone_why   text
);

-- Smallest id of a moment: day partitions begin at it, and time filters compare with it.
CREATE FUNCTION rota.id_floor(moment timestamptz) RETURNS uuid
LANGUAGE sql STABLE STRICT PARALLEL SAFE
RETURN (lpad(to_hex(floor(extract(epoch FROM moment) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid;

-- Makes the partitions of history that one UTC day belongs to: its own, or that of its whole month when the month is
-- still more than 31 days away. (Runs end in the far future only when they are cancelled; a day each would be a table
-- each.) The days of a month that has its partition need none of their own later. Made apart and then attached, because ATTACH lets
-- readers and writers of the parent go on where CREATE ... PARTITION OF would lock them out.
CREATE FUNCTION rota.make_day(day date) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    month    date := date_trunc('month', day);
    far      boolean := month > (now() AT TIME ZONE 'UTC')::date + 31;
    first_at date := CASE WHEN far THEN month ELSE day END;
    last_at  date := CASE WHEN far THEN (month + interval '1 month')::date ELSE day + 1 END;
    parent   text;
    child    text;
    made     boolean := false;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('rota.make_day', 0));
    FOREACH parent IN ARRAY ARRAY['finished_runs', 'attempts'] LOOP
        child := parent || '_' || to_char(day, CASE WHEN far THEN 'YYYYMM' ELSE 'YYYYMMDD' END);
        IF to_regclass('rota.' || child) IS NULL
           AND to_regclass('rota.' || parent || '_' || to_char(day, 'YYYYMM')) IS NULL THEN
            EXECUTE format('CREATE TABLE rota.%I (LIKE rota.%I INCLUDING ALL)', child, parent);
            EXECUTE format('ALTER TABLE rota.%I ATTACH PARTITION rota.%I FOR VALUES FROM (%L) TO (%L)',
                           parent, child, rota.id_floor(first_at::timestamp AT TIME ZONE 'UTC'),
                           rota.id_floor(last_at::timestamp AT TIME ZONE 'UTC'));
            made := true;
        END IF;
    END LOOP;
    RETURN made;
END
$$;

-- Every run, wherever it is. Each branch is served by its primary key in the order of ids.
CREATE VIEW rota.runs AS
SELECT namespace, id, job_id, job_version, owner, name, task, pool, priority, tags, payload, payload_id,
       options, cause, retry_of, root_id, shard, nominal_at, run_at, attempt, losses, created_at,
       CASE WHEN attempt > 0 THEN 'retrying' ELSE 'scheduled' END AS status,
       'upcoming' AS place, NULL::text AS gate, NULL::timestamptz AS started_at,
       NULL::timestamptz AS finished_at, NULL::uuid AS worker_id, NULL::bigint AS claim,
       NULL::real AS progress, NULL::text AS progress_note, false AS cancel_requested,
       NULL::text AS error, NULL::text AS traceback, NULL::text AS result, NULL::text AS reason
  FROM rota.upcoming_runs
UNION ALL
SELECT namespace, id, job_id, job_version, owner, name, task, pool, priority, tags, payload, payload_id,
       options, cause, retry_of, root_id, shard, nominal_at, run_at, attempt, losses, created_at,
       'blocked', 'held', gate, NULL, NULL, NULL, NULL, NULL, NULL, false, NULL, NULL, NULL, NULL
  FROM rota.held_runs
UNION ALL
SELECT namespace, id, job_id, job_version, owner, name, task, pool, priority, tags, payload, payload_id,
       options, cause, retry_of, root_id, shard, nominal_at, run_at, attempt, losses, created_at,
       CASE WHEN worker_id IS NULL OR ready_at > now() THEN 'queued' ELSE 'running' END,
       'live', NULL, CASE WHEN ready_at <= now() THEN started_at END, NULL, worker_id, claim,
       progress, progress_note, cancel_requested_at IS NOT NULL, NULL, NULL, NULL, NULL
  FROM rota.live_runs
UNION ALL
SELECT namespace, id, job_id, job_version, owner, name, task, pool, priority, tags, payload, payload_id,
       options, cause, retry_of, root_id, shard, nominal_at, run_at, attempt, losses, created_at,
       status, 'finished', NULL, started_at, finished_at, worker_id, claim,
       progress, progress_note, cancel_requested, error, traceback, result, reason
  FROM rota.finished_runs;
