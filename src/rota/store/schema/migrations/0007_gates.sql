-- Gates: what a run waits for besides its time. Keys, limits, rates, breakers, overlap; calendars; pools; unique jobs.

-- What a run's policies are, keys resolved; null for a plain run, which never meets a gate:
--   order   its ordering key; letGo: others of the key may pass while it waits out a backoff
--   limit   its concurrency key, with `most` at a time
--   rate    its rate key, with `count` starts `per` so many seconds, `burst` at once
--   breaker its breaker's key, with `failures` in a row that open it, for `cooldown` seconds
--   overlap what a time of its schedule does when an earlier one has not ended: skip, queue, replace
ALTER TABLE rota.upcoming_runs ADD COLUMN policies jsonb;
ALTER TABLE rota.held_runs     ADD COLUMN policies jsonb;
ALTER TABLE rota.live_runs     ADD COLUMN policies jsonb;
ALTER TABLE rota.finished_runs ADD COLUMN policies jsonb;

-- Never two live runs of one ordering key, whatever anybody believes.
CREATE UNIQUE INDEX live_runs_in_order ON rota.live_runs (namespace, (policies ->> 'order'))
 WHERE (policies ->> 'order') IS NOT NULL;
CREATE INDEX live_runs_limited ON rota.live_runs (namespace, (policies ->> 'limit'))
 WHERE (policies ->> 'limit') IS NOT NULL;
-- Who was started, waits to be started again, and keeps its place meanwhile.
CREATE INDEX upcoming_runs_in_order ON rota.upcoming_runs (namespace, (policies ->> 'order'))
 WHERE (policies ->> 'order') IS NOT NULL AND (attempt > 0 OR snoozes > 0);

-- `gate_key` says at which gate of its kind a run waits. 'new': nobody has looked at it yet.
ALTER TABLE rota.held_runs ADD COLUMN gate_key text COLLATE "C";
ALTER TABLE rota.held_runs DROP CONSTRAINT held_runs_gate_check;
ALTER TABLE rota.held_runs ADD CONSTRAINT held_runs_gate_check
    CHECK (gate IN ('pause', 'recall', 'new', 'order', 'limit', 'rate', 'breaker', 'overlap'));
CREATE INDEX held_runs_waiting ON rota.held_runs (namespace, gate, gate_key, nominal_at, id) WHERE gate_key IS NOT NULL;
CREATE INDEX held_runs_in_order ON rota.held_runs (namespace, (policies ->> 'order'), nominal_at, id)
 WHERE (policies ->> 'order') IS NOT NULL;

-- A run with policies has left its place: somebody behind it may go on. Written by the statement that moved it, read and
-- taken away by admission in the transaction that acts on it, so nobody is forgotten through any crash. Insert only, no key:
-- whoever reports never waits here.
CREATE TABLE rota.departures (
    left_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    namespace text COLLATE "C" NOT NULL,
    run_id    uuid NOT NULL,
    job_id    uuid NOT NULL,
    policies  jsonb NOT NULL,
    outcome   text
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX departures_oldest ON rota.departures (left_at);

-- Gates that remember something: how many tokens are left, whether a breaker is open. Order and limits remember nothing:
-- they are counted from the runs that are there.
CREATE TABLE rota.gates (
    namespace  text COLLATE "C" NOT NULL,
    kind       text COLLATE "C" NOT NULL CHECK (kind IN ('rate', 'breaker')),
    key        text COLLATE "C" NOT NULL,
    tokens     double precision,
    counted_at timestamptz,
    full_at    timestamptz,
    state      text CHECK (state IN ('closed', 'open', 'half-open')),
    failures   integer,
    probe      uuid,
    until      timestamptz,
    wakes_at   timestamptz,
    changed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (namespace, kind, key)
);
CREATE INDEX gates_waking ON rota.gates (wakes_at) WHERE wakes_at IS NOT NULL;
CREATE INDEX gates_idle ON rota.gates (full_at) WHERE full_at IS NOT NULL;

-- What happened to something other than a run.
CREATE TABLE rota.events (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    namespace text COLLATE "C" NOT NULL,
    kind      text NOT NULL,
    subject   text NOT NULL,
    detail    text
);

CREATE INDEX events_oldest ON rota.events (at);

-- Pools that somebody said something about; every other pool is open and unlimited.
CREATE TABLE rota.pools (
    namespace    text COLLATE "C" NOT NULL,
    pool         text COLLATE "C" NOT NULL,
    paused_at    timestamptz,
    most_waiting integer CHECK (most_waiting >= 0),
    PRIMARY KEY (namespace, pool)
);

-- The calendar of a recurring job. Jitter moves the start, never the nominal time. `misfire` (JSON): what becomes of times
-- that were missed, null for the default.
ALTER TABLE rota.jobs
    ADD COLUMN policies       jsonb,
    ADD COLUMN misfire        text,
    ADD COLUMN start_at       timestamptz,
    ADD COLUMN end_at         timestamptz,
    ADD COLUMN jitter_seconds double precision NOT NULL DEFAULT 0 CHECK (jitter_seconds >= 0),
    ADD COLUMN dst            text;

-- With which zone data the stored next fire times were computed.
ALTER TABLE rota.constants ADD COLUMN zone_data text;

-- Every run, wherever it is; the columns that came later stand at the end.
CREATE OR REPLACE VIEW rota.runs AS
SELECT namespace, id, job_id, job_version, owner, name, task, pool, priority, tags, payload, payload_id,
       options, cause, retry_of, root_id, shard, nominal_at, run_at, attempt, losses, created_at,
       CASE WHEN attempt > 0 THEN 'retrying' ELSE 'scheduled' END AS status,
       'upcoming' AS place, NULL::text AS gate, NULL::timestamptz AS started_at,
       NULL::timestamptz AS finished_at, NULL::uuid AS worker_id, NULL::bigint AS claim,
       NULL::real AS progress, NULL::text AS progress_note, false AS cancel_requested,
       NULL::text AS error, NULL::text AS traceback, NULL::text AS result, NULL::text AS reason,
       expires_at, checkpoint, snoozes, NULL::text AS result_blob, policies, NULL::text AS gate_key
  FROM rota.upcoming_runs
UNION ALL
SELECT namespace, id, job_id, job_version, owner, name, task, pool, priority, tags, payload, payload_id,
       options, cause, retry_of, root_id, shard, nominal_at, run_at, attempt, losses, created_at,
       CASE WHEN gate = 'new' AND run_at > now() THEN CASE WHEN attempt > 0 THEN 'retrying' ELSE 'scheduled' END
            ELSE 'blocked' END,
       'held', gate, NULL, NULL, NULL, NULL, NULL, NULL, false, NULL, NULL, NULL, NULL,
       expires_at, checkpoint, snoozes, NULL, policies, gate_key
  FROM rota.held_runs
UNION ALL
SELECT namespace, id, job_id, job_version, owner, name, task, pool, priority, tags, payload, payload_id,
       options, cause, retry_of, root_id, shard, nominal_at, run_at, attempt, losses, created_at,
       CASE WHEN worker_id IS NULL OR ready_at > now() THEN 'queued' ELSE 'running' END,
       'live', NULL, CASE WHEN ready_at <= now() THEN started_at END, NULL, worker_id, claim,
       progress, progress_note, cancel_requested_at IS NOT NULL, NULL, NULL, NULL, NULL,
       expires_at, checkpoint, snoozes, NULL, policies, NULL
  FROM rota.live_runs
UNION ALL
SELECT namespace, id, job_id, job_version, owner, name, task, pool, priority, tags, payload, payload_id,
       options, cause, retry_of, root_id, shard, nominal_at, run_at, attempt, losses, created_at,
       status, 'finished', NULL, started_at, finished_at, worker_id, claim,
       progress, progress_note, cancel_requested, error, traceback, result, reason,
       expires_at, checkpoint, snoozes, result_blob, policies, NULL
  FROM rota.finished_runs;
