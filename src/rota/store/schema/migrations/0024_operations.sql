-- Backfills, replays and bulk acts: operations, and the ends of their runs.
ALTER TABLE rota.upcoming_runs DROP CONSTRAINT upcoming_runs_cause_check,
  ADD CONSTRAINT upcoming_runs_cause_check
      CHECK (cause IN ('submit', 'schedule', 'manual', 'retry', 'redrive', 'node', 'member', 'backfill', 'replay'))
      NOT VALID;
ALTER TABLE rota.held_runs DROP CONSTRAINT upcoming_runs_cause_check,
  ADD CONSTRAINT upcoming_runs_cause_check
      CHECK (cause IN ('submit', 'schedule', 'manual', 'retry', 'redrive', 'node', 'member', 'backfill', 'replay'))
      NOT VALID;
ALTER TABLE rota.live_runs DROP CONSTRAINT upcoming_runs_cause_check,
  ADD CONSTRAINT upcoming_runs_cause_check
      CHECK (cause IN ('submit', 'schedule', 'manual', 'retry', 'redrive', 'node', 'member', 'backfill', 'replay'))
      NOT VALID;
ALTER TABLE rota.finished_runs DROP CONSTRAINT upcoming_runs_cause_check,
  ADD CONSTRAINT upcoming_runs_cause_check
      CHECK (cause IN ('submit', 'schedule', 'manual', 'retry', 'redrive', 'node', 'member', 'backfill', 'replay'))
      NOT VALID;

-- Operations: what shall be done to many runs, piece by piece. Whoever makes runs for one locks its row first.
--   backfill  times of a job's calendar that have passed become runs
--   replay    runs that have ended are run again
--   redrive   dead letters are run again
--   cancel    runs that have not ended are cancelled
CREATE TABLE rota.operations (
    namespace     text COLLATE "C" NOT NULL,
    id            uuid NOT NULL,
    kind          text NOT NULL CHECK (kind IN ('backfill', 'replay', 'redrive', 'cancel')),
    owner         text NOT NULL,                -- who asked for it
    shard         smallint NOT NULL,            -- which scheduler serves it
    state         text NOT NULL CHECK (state IN ('running', 'paused', 'stopped', 'aborting', 'completed', 'aborted')),
    revision      integer NOT NULL DEFAULT 1,   -- grows with each piece of work and each act of a person
    reason        text,                         -- why it was stopped or aborted
    job_id        uuid,                         -- backfill: the recurring job
    workflow_id   uuid,                         -- backfill: the workflow that this job fires
    name          text,                         -- backfill: the name of the job or workflow
    timetable     text,                         -- backfill: the job's calendar when it was created (JSON)
    job_made_at   timestamptz,                  -- backfill: the job has no history from before
    first_at      timestamptz,                  -- backfill: its times, from here
    last_at       timestamptz,                  -- backfill: up to here; later ones belong to the schedule
    newest_first  boolean NOT NULL DEFAULT false,
    existing      text CHECK (existing IN ('skip', 'failed', 'rerun')),
    unknown       text CHECK (unknown IN ('run', 'skip')),  -- times whose history is gone
    filter        text,                         -- the others: which runs (JSON)
    concurrency   integer NOT NULL CHECK (concurrency >= 1),  -- how many of its runs there may be at a time
    rate          double precision CHECK (rate > 0),          -- how many a second it may make; null: any
    paced_to      timestamptz,                  -- up to when the rate is used up
    stop_share    real CHECK (stop_share >= 0 AND stop_share <= 1),  -- stops when more than this share has failed
    total         integer,                      -- how many times or runs there are, if known
    position_at   timestamptz,                  -- backfill: the last time that was dealt with
    position_id   uuid,                         -- the others: the last run
    made          integer NOT NULL DEFAULT 0,   -- runs made; cancelled, if that is what it does
    left_out      integer NOT NULL DEFAULT 0,   -- times or runs that need none
    ended         integer NOT NULL DEFAULT 0,   -- runs of it that have ended
    failed        integer NOT NULL DEFAULT 0,
    cancelled     integer NOT NULL DEFAULT 0,
    judged_ended  integer NOT NULL DEFAULT 0,   -- as they were at the last resume: the share counts from there
    judged_failed integer NOT NULL DEFAULT 0,
    is_made       boolean NOT NULL DEFAULT false,  -- whether there is nothing left to make
    served_at     timestamptz NOT NULL DEFAULT now(),
    created_at    timestamptz NOT NULL DEFAULT now(),
    changed_at    timestamptz NOT NULL DEFAULT now(),
    ended_at      timestamptz,                  -- null: it is open
    PRIMARY KEY (namespace, id),
    CONSTRAINT operations_ended CHECK ((ended_at IS NOT NULL) = (state IN ('completed', 'aborted'))),
    CONSTRAINT operations_counts CHECK (made >= ended AND ended >= failed + cancelled)
);
CREATE INDEX operations_open ON rota.operations (shard, served_at) WHERE ended_at IS NULL;
CREATE INDEX operations_open_of ON rota.operations (namespace) WHERE ended_at IS NULL;
CREATE INDEX operations_of_job ON rota.operations (namespace, job_id, id) WHERE job_id IS NOT NULL;

-- The runs of operations: those that have not ended, those whose end is not counted yet, and those that did not succeed.
-- The trigger count_end on finished_runs writes the outcome in the transaction of the end, whichever process of whichever
-- release ends the run. A time of a backfill that was left out because its run had not ended has a row as well ('left').
CREATE TABLE rota.operation_runs (
    namespace  text COLLATE "C" NOT NULL,
    run_id     uuid NOT NULL,
    operation  uuid NOT NULL,
    nominal_at timestamptz NOT NULL,
    outcome    text CHECK (outcome IN ('success', 'failed', 'cancelled', 'skipped', 'left')),  -- null: it has not ended
    has_run    boolean,                       -- whether it was started
    is_counted boolean NOT NULL DEFAULT false,
    PRIMARY KEY (namespace, run_id)
);
CREATE INDEX operation_runs_of ON rota.operation_runs (namespace, operation, nominal_at);
CREATE INDEX operation_runs_ended ON rota.operation_runs (operation) WHERE outcome IS NOT NULL AND NOT is_counted;

-- Writes how the run of an operation ended to its row there. A run that is not there, such as one that was redriven by
-- itself, changes nothing.
CREATE FUNCTION rota.count_end() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    UPDATE rota.operation_runs AS r SET outcome = NEW.status, has_run = NEW.started_at IS NOT NULL
     WHERE r.namespace = NEW.namespace AND r.run_id = NEW.id AND r.outcome IS NULL;
    RETURN NULL;
END
$$;

CREATE TRIGGER count_end AFTER INSERT ON rota.finished_runs
    FOR EACH ROW WHEN (NEW.cause IN ('backfill', 'replay', 'redrive')) EXECUTE FUNCTION rota.count_end();

REVOKE ALL ON FUNCTION rota.count_end FROM PUBLIC;
