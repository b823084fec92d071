-- Workflows: their definitions, runs and nodes, and notes of the ends of nodes.
ALTER TABLE rota.upcoming_runs DROP CONSTRAINT upcoming_runs_cause_check,
  ADD CONSTRAINT upcoming_runs_cause_check
      CHECK (cause IN ('submit', 'schedule', 'manual', 'retry', 'redrive', 'node', 'member')) NOT VALID;
ALTER TABLE rota.held_runs DROP CONSTRAINT upcoming_runs_cause_check,
  ADD CONSTRAINT upcoming_runs_cause_check
      CHECK (cause IN ('submit', 'schedule', 'manual', 'retry', 'redrive', 'node', 'member')) NOT VALID;
ALTER TABLE rota.live_runs DROP CONSTRAINT upcoming_runs_cause_check,
  ADD CONSTRAINT upcoming_runs_cause_check
      CHECK (cause IN ('submit', 'schedule', 'manual', 'retry', 'redrive', 'node', 'member')) NOT VALID;
ALTER TABLE rota.finished_runs DROP CONSTRAINT upcoming_runs_cause_check,
  ADD CONSTRAINT upcoming_runs_cause_check
      CHECK (cause IN ('submit', 'schedule', 'manual', 'retry', 'redrive', 'node', 'member')) NOT VALID;

-- Workflows. Edges are in the definitions; a node that waits has no row. The runs of nodes are ordinary runs with the
-- cause 'node', or 'member' if they are members of a map, the id of their workflow run as job_id and their node's number
-- as job_version.

-- A workflow by its name. Its schedule, if it has one, is a recurring job.
CREATE TABLE rota.workflows (
    namespace  text COLLATE "C" NOT NULL,
    id         uuid NOT NULL,
    name       text COLLATE "C" NOT NULL,
    owner      text NOT NULL,
    version    text COLLATE "C" NOT NULL,   -- the hash of its current definition
    revision   integer NOT NULL DEFAULT 1,  -- grows with each change
    state      text NOT NULL CHECK (state IN ('active', 'paused', 'deleted')),
    job_id     uuid NOT NULL,               -- the recurring job that fires it; without a schedule it has no row
    schedule   text,                        -- when it runs by itself (JSON), as it was given
    timezone   text NOT NULL DEFAULT 'UTC', -- of its schedule: the zone of nominal dates
    deadline_seconds double precision,      -- of its runs
    created_at timestamptz NOT NULL DEFAULT now(),
    changed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (namespace, id)
);
CREATE UNIQUE INDEX workflows_of_job ON rota.workflows (namespace, job_id);
CREATE UNIQUE INDEX workflows_by_name ON rota.workflows (namespace, name) WHERE state <> 'deleted';

-- Its definitions, by the hash of their canonical form. A workflow run keeps the one it began with.
CREATE TABLE rota.workflow_versions (
    namespace   text COLLATE "C" NOT NULL,
    workflow_id uuid NOT NULL,
    version     text COLLATE "C" NOT NULL,
    number      integer NOT NULL,           -- 1 for the first; 0: nodes that a node of a run added
    definition  text NOT NULL,              -- JSON
    created_by  text NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (namespace, workflow_id, version)
);

-- Workflow runs. While one is open, this is the place of its carrier: the run that the schedule, a submission or a node
-- made. Admission moves it here from held_runs, and its end to finished_runs. The row stays: it is what a resume begins
-- with. Whoever makes or stops runs of a workflow run locks its row first.
CREATE TABLE rota.workflow_runs (
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
    attempt     integer NOT NULL,
    losses      smallint NOT NULL,
    created_at  timestamptz NOT NULL,
    expires_at  timestamptz,
    checkpoint  text,
    snoozes     integer NOT NULL,
    policies    jsonb,
    carrier_id  uuid NOT NULL,                -- the run that it is among runs: its id, or a newer one after a resume
    workflow_id uuid NOT NULL,
    version     text COLLATE "C" NOT NULL,
    timezone    text NOT NULL,                -- of nominal dates
    root        uuid NOT NULL,                -- the workflow run that it is a part of, or itself
    depth       smallint NOT NULL DEFAULT 0,  -- how many levels below that
    pins        text,                         -- the versions of sub-workflows (JSON), found out when the root opened
    generation  integer NOT NULL DEFAULT 1,   -- grows with each resume
    revision    bigint NOT NULL DEFAULT 0,    -- grows with each change: what a scheduler remembers of it is still true
    stop        text CHECK (stop IN ('cancel', 'deadline', 'failure')),
    stopped_by  text,                         -- who asked for it
    started_by  text,                         -- who ran it, if a person or program did
    is_swept    boolean NOT NULL DEFAULT false,  -- whether all of its runs that a stop concerns were told
    is_paused   boolean NOT NULL DEFAULT false,  -- no node starts
    opened_at   timestamptz NOT NULL DEFAULT now(),
    deadline_at timestamptz,
    ended_at    timestamptz,                  -- null: it is open
    outcome     text CHECK (outcome IN ('success', 'failed', 'cancelled')),
    culprit     text,                         -- the node that failed first
    result      text,                         -- the results (JSON) of its last nodes, by their keys
    PRIMARY KEY (namespace, id),
    CHECK ((ended_at IS NULL) = (outcome IS NULL))
);
CREATE UNIQUE INDEX workflow_runs_carried ON rota.workflow_runs (namespace, carrier_id);
CREATE INDEX workflow_runs_of_job ON rota.workflow_runs (namespace, job_id) WHERE ended_at IS NULL;
CREATE INDEX workflow_runs_of_workflow ON rota.workflow_runs (namespace, workflow_id, id);
CREATE INDEX workflow_runs_deadline ON rota.workflow_runs (shard, deadline_at)
 WHERE ended_at IS NULL AND (stop IS NULL OR stop = 'failure') AND deadline_at IS NOT NULL;
CREATE INDEX workflow_runs_of_root ON rota.workflow_runs (namespace, root) WHERE ended_at IS NULL;
CREATE INDEX workflow_runs_stopping ON rota.workflow_runs (shard)
 WHERE ended_at IS NULL AND stop IS NOT NULL AND NOT is_swept;

-- Nodes that wait no more, and those that wait again after a resume.
CREATE TABLE rota.workflow_nodes (
    namespace   text COLLATE "C" NOT NULL,
    flow        uuid NOT NULL,              -- the workflow run
    node        integer NOT NULL,           -- its number in the definition
    state       text NOT NULL CHECK (state IN ('waiting', 'open', 'success', 'failed', 'stopped',
                                               'skipped_by_condition', 'skipped_by_failure')),
    generation  integer NOT NULL,           -- of the workflow run when it was started, or reset
    inputs_of   integer NOT NULL,           -- the generation of its inputs: its idempotency key depends on it
    run_id      uuid,                       -- its current run, or the mark of its wait
    adds        boolean NOT NULL DEFAULT false,  -- its run succeeded, and what that added has not ended
    result      text,                       -- what that returned (JSON), if small
    result_blob text,                       -- else its key in object storage
    reason      text,
    culprit     text,                       -- the node that it was skipped for
    opened_at   timestamptz,
    ended_at    timestamptz,
    PRIMARY KEY (namespace, flow, node)
) PARTITION BY RANGE (flow);

-- The maps of workflow runs that were started: a member is made of each item, a window of them ahead of the workers.
CREATE TABLE rota.workflow_maps (
    namespace   text COLLATE "C" NOT NULL,
    flow        uuid NOT NULL,
    node        integer NOT NULL,
    shard       smallint NOT NULL,
    generation  integer NOT NULL,
    inputs_of   integer NOT NULL,           -- the generation of its inputs: the keys of its members depend on it
    is_redone   boolean NOT NULL DEFAULT false,  -- whether members that failed are to be made again
    items       text,                       -- the items (a JSON array), or
    object      text,                       -- the key of an object with one item per line
    etag        text,                       -- what that object was when its first line was read
    position    bigint NOT NULL DEFAULT 0,  -- how much of the source was read: items, or bytes
    next_item   integer NOT NULL DEFAULT 0, -- the number of the next item
    member_window integer NOT NULL,         -- how many members there may be at a time
    tolerated   integer,                    -- how many may fail, or
    tolerated_percent real,                 -- which share of them; judged at the end
    stops       boolean NOT NULL,           -- whether the first failure too many stops what runs
    made        integer NOT NULL DEFAULT 0,
    ended       integer NOT NULL DEFAULT 0,
    failed      integer NOT NULL DEFAULT 0,
    stopped     integer NOT NULL DEFAULT 0, -- with their workflow run
    skipped     integer NOT NULL DEFAULT 0, -- by their condition: no run was made
    is_made     boolean NOT NULL DEFAULT false,  -- whether the source is at its end
    is_failing  boolean NOT NULL DEFAULT false,  -- for good in this generation
    is_swept    boolean NOT NULL DEFAULT false,  -- whether its members that have not started were cancelled then
    error       text,                       -- why no more items could be read
    parts       integer NOT NULL DEFAULT 0, -- of its results
    PRIMARY KEY (namespace, flow, node)
) PARTITION BY RANGE (flow);
CREATE INDEX workflow_maps_failing ON rota.workflow_maps (shard) WHERE is_failing AND NOT is_swept;
CREATE INDEX workflow_maps_making ON rota.workflow_maps (shard) WHERE (is_redone OR NOT is_made) AND NOT is_failing;

-- Members that failed, by the numbers of their items, with what a resume needs to make them again.
CREATE TABLE rota.map_failures (
    namespace  text COLLATE "C" NOT NULL,
    flow       uuid NOT NULL,
    node       integer NOT NULL,
    item       integer NOT NULL,
    run_id     uuid,                        -- null: no run could be made of the item
    payload    text,
    payload_id uuid,
    reason     text,
    is_redone  boolean NOT NULL DEFAULT false,  -- to be made again
    PRIMARY KEY (namespace, flow, node, item)
) PARTITION BY RANGE (flow);

-- What members returned, in parts of lines: {"index": 7, "result": ...}. A member that returned nothing has no line.
CREATE TABLE rota.map_results (
    namespace text COLLATE "C" NOT NULL,
    flow      uuid NOT NULL,
    node      integer NOT NULL,
    part      integer NOT NULL,
    lines     text NOT NULL,
    PRIMARY KEY (namespace, flow, node, part)
) PARTITION BY RANGE (flow);

-- Waits that have not ended. A wait ends when its row is deleted, by its time, a signal, a decision of a person or a stop,
-- whichever comes first; in the same transaction a note says how.
CREATE TABLE rota.flow_waits (
    namespace text COLLATE "C" NOT NULL,
    flow      uuid NOT NULL,
    node      integer NOT NULL,
    mark      uuid NOT NULL,                -- run_id of the node
    shard     smallint NOT NULL,
    wakes_at  timestamptz,                  -- when it ends by itself
    outcome   text NOT NULL CHECK (outcome IN ('success', 'failed', 'skipped')),  -- how it ends then
    signal    text,                         -- the signal it waits for
    approvers text[],                       -- who may decide; empty: all who have the right; null: it is no approval
    opened_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (namespace, flow, node)
);
CREATE INDEX flow_waits_due ON rota.flow_waits (shard, wakes_at) WHERE wakes_at IS NOT NULL;

-- Signals that no wait has taken yet.
CREATE TABLE rota.flow_signals (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace text COLLATE "C" NOT NULL,
    flow      uuid NOT NULL,
    name      text COLLATE "C" NOT NULL,
    payload   text,                         -- JSON
    sent_by   text NOT NULL,
    sent_at   timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX flow_signals_of_flow ON rota.flow_signals (namespace, flow, id);

-- Notes for the conductor (scheduler/conductor.py): the run of a node ended, or, without a node, a workflow run is to be
-- looked at. Written in the transaction of the end, by the trigger note_end on finished_runs, so whichever process of
-- whichever release ends a run, no end is lost; deleted in the transaction that acts on it. Without a key: an end never
-- waits here.
CREATE TABLE rota.flow_notes (
    noted_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    shard       smallint NOT NULL,
    namespace   text COLLATE "C" NOT NULL,
    flow        uuid NOT NULL,
    node        integer,
    run_id      uuid,
    outcome     text,                       -- success, failed, cancelled, expired, skipped; resume: run again what failed
    item        integer,                    -- of a member: the number of its item
    payload     text,                       -- of a member that did not succeed
    payload_id  uuid,
    is_member   boolean NOT NULL DEFAULT false,
    result      text,
    result_blob text,
    reason      text                        -- the error, or why it was cancelled
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX flow_notes_oldest ON rota.flow_notes (shard, noted_at);
CREATE INDEX flow_notes_of_flow ON rota.flow_notes (flow);

-- Leaves a note of the end of a node's run for the conductor of its workflow run.
CREATE FUNCTION rota.note_end() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    is_member boolean := NEW.cause = 'member';
    is_lost   boolean := NEW.cause = 'member' AND NEW.status <> 'success';
BEGIN
    INSERT INTO rota.flow_notes (shard, namespace, flow, node, run_id, outcome, item, payload, payload_id, is_member,
                                 result, result_blob, reason)
    VALUES (NEW.shard, NEW.namespace, NEW.job_id, NEW.job_version, NEW.id,
            CASE NEW.status WHEN 'skipped' THEN 'expired' ELSE NEW.status END,
            CASE WHEN is_lost OR is_member AND (NEW.result <> 'null' OR NEW.result_blob IS NOT NULL)
                 THEN (NEW.options::json -> 'item')::text::integer END,
            CASE WHEN is_lost THEN NEW.payload END, CASE WHEN is_lost THEN NEW.payload_id END, is_member,
            NEW.result, NEW.result_blob, coalesce(NEW.error, NEW.reason));
    RETURN NULL;
END
$$;

CREATE TRIGGER note_end AFTER INSERT ON rota.finished_runs
    FOR EACH ROW WHEN (NEW.cause IN ('node', 'member')) EXECUTE FUNCTION rota.note_end();

CREATE OR REPLACE VIEW rota.open_runs WITH (security_invoker = true) AS
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
       -- Claimed ahead of its time, it does not run yet.
       CASE WHEN worker_id IS NULL OR ready_at > now() THEN 'queued' ELSE 'running' END,
       'live', NULL, CASE WHEN ready_at <= now() THEN started_at END, NULL, worker_id, claim,
       progress, progress_note, cancel_requested_at IS NOT NULL, NULL, NULL, NULL, NULL,
       expires_at, checkpoint, snoozes, NULL, policies, NULL
  FROM rota.live_runs
UNION ALL
SELECT namespace, carrier_id, job_id, job_version, owner, name, task, pool, priority, tags, payload, payload_id,
       options, cause, retry_of, root_id, shard, nominal_at, run_at, attempt, losses, created_at,
       'running', 'workflow', NULL, opened_at, NULL, NULL, NULL, NULL, NULL, stop IS NOT NULL, NULL, NULL, NULL, NULL,
       expires_at, checkpoint, snoozes, NULL, policies, NULL
  FROM rota.workflow_runs
 WHERE ended_at IS NULL;

-- Every run. A generic plan over it locks each day of history: a run by its id is looked for in open_runs first.
CREATE OR REPLACE VIEW rota.runs WITH (security_invoker = true) AS
SELECT * FROM rota.open_runs
UNION ALL
SELECT namespace, id, job_id, job_version, owner, name, task, pool, priority, tags, payload, payload_id,
       options, cause, retry_of, root_id, shard, nominal_at, run_at, attempt, losses, created_at,
       status, 'finished', NULL, started_at, finished_at, worker_id, claim,
       progress, progress_note, cancel_requested, error, traceback, result, reason,
       expires_at, checkpoint, snoozes, result_blob, policies, NULL
  FROM rota.finished_runs;

-- Workflows that applications declare in code, by their names. What the code said last is kept, so that a change made by
-- hand stays until the code says something new.
CREATE TABLE rota.declared_workflows (
    namespace     text COLLATE "C" NOT NULL,
    app           text COLLATE "C" NOT NULL,
    name          text COLLATE "C" NOT NULL,
    workflow_id   uuid NOT NULL,
    declared      text COLLATE "C" NOT NULL,      -- the hash of what the code said
    version       text COLLATE "C",               -- of the application that said so
    paused_by_app boolean NOT NULL DEFAULT false, -- paused because no code declares it any more
    PRIMARY KEY (namespace, app, name)
);

-- What versions of applications declare of workflows, and what of it was applied; null: none.
ALTER TABLE rota.app_versions ADD COLUMN workflows jsonb;
ALTER TABLE rota.apps ADD COLUMN workflows jsonb;
