-- What a job can be: expiry, checkpoints, snoozes, payloads and results in object storage, logs, the health of workers.

-- Three columns travel with a run; nearly always empty.
--   expires_at  until when it must have been started; empty without such a limit, and once it was started
--   checkpoint  what an attempt left behind for the next (JSON)
--   snoozes     how often it asked to be run again later
ALTER TABLE rota.upcoming_runs ADD COLUMN expires_at timestamptz, ADD COLUMN checkpoint text,
                               ADD COLUMN snoozes integer NOT NULL DEFAULT 0;
ALTER TABLE rota.held_runs     ADD COLUMN expires_at timestamptz, ADD COLUMN checkpoint text,
                               ADD COLUMN snoozes integer NOT NULL DEFAULT 0;
ALTER TABLE rota.live_runs     ADD COLUMN expires_at timestamptz, ADD COLUMN checkpoint text,
                               ADD COLUMN snoozes integer NOT NULL DEFAULT 0;
-- result_blob: where a result is kept that is too large for this row.
ALTER TABLE rota.finished_runs ADD COLUMN expires_at timestamptz, ADD COLUMN checkpoint text,
                               ADD COLUMN snoozes integer NOT NULL DEFAULT 0, ADD COLUMN result_blob text;

-- What must not wait for ever; nearly always empty.
CREATE INDEX live_runs_expiring ON rota.live_runs (shard, expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX held_runs_expiring ON rota.held_runs (shard, expires_at) WHERE expires_at IS NOT NULL;

-- Until when a run that is due at a moment must be started.
CREATE FUNCTION rota.expiry_of(options text, due_at timestamptz) RETURNS timestamptz
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN CASE WHEN strpos(options, '"expiresSeconds"') > 0
            THEN due_at + ((options::jsonb ->> 'expiresSeconds')::float8) * interval '1 second' END;

-- The same after a change of options: a run that was started once has lost its expiry for good.
CREATE FUNCTION rota.changed_expiry(
    expires_at timestamptz, old_options text, attempt integer, snoozes integer, new_options text, due_at timestamptz
) RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN attempt = 0 AND snoozes = 0 AND (expires_at IS NOT NULL OR strpos(old_options, '"expiresSeconds"') = 0)
            THEN rota.expiry_of(new_options, due_at) END;

-- A payload is here, or in object storage under the key `blob`.
ALTER TABLE rota.payloads ALTER COLUMN body DROP NOT NULL;
ALTER TABLE rota.payloads ADD COLUMN blob text;
ALTER TABLE rota.payloads ADD CONSTRAINT payloads_somewhere CHECK ((body IS NULL) <> (blob IS NULL));

-- How a worker that beats is doing: empty when well.
ALTER TABLE rota.workers ADD COLUMN ailing text;

-- What runs wrote, as it came: a few lines in each row, `time stream text` each. Insert only; partitioned like the history.
-- `position` orders the chunks of a run: one worker writes them one after the other, so it grows with the commits.
CREATE SEQUENCE rota.log_positions AS bigint;
CREATE TABLE rota.log_chunks (
    namespace text COLLATE "C" NOT NULL,
    run_id    uuid NOT NULL,
    claim     bigint NOT NULL,
    number    integer NOT NULL,
    position  bigint NOT NULL,
    attempt   integer NOT NULL,
    last      boolean NOT NULL,
    body      text NOT NULL,
    PRIMARY KEY (namespace, run_id, claim, number)
) PARTITION BY RANGE (run_id);

-- Attempts whose last chunk was written and whose log is not in object storage yet.
CREATE TABLE rota.log_ends (
    namespace text COLLATE "C" NOT NULL,
    run_id    uuid NOT NULL,
    claim     bigint NOT NULL,
    ended_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (namespace, run_id, claim)
);
CREATE INDEX log_ends_oldest ON rota.log_ends (ended_at);

-- Where in object storage the log of an attempt is: a piece of an object, or all of it. Partitioned like the history.
CREATE TABLE rota.kept_logs (
    namespace text COLLATE "C" NOT NULL,
    run_id    uuid NOT NULL,
    claim     bigint NOT NULL,
    attempt   integer NOT NULL,
    position  bigint NOT NULL,
    blob      text NOT NULL,
    first     bigint NOT NULL,
    length    integer NOT NULL,
    PRIMARY KEY (namespace, run_id, claim)
) PARTITION BY RANGE (run_id);

-- Lets the chunks of days go that are over for this long and wholly kept in object storage; gives back how many days went.
CREATE FUNCTION rota.drop_log_days(recent_days integer) RETURNS integer
LANGUAGE plpgsql SET lock_timeout = '1s' AS $$
DECLARE
    child   text;
    unkept  boolean;
    dropped integer := 0;
BEGIN
    FOR child IN
        SELECT c.relname FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
         WHERE i.inhparent = 'rota.log_chunks'::regclass AND c.relname ~ '^log_chunks_\d{8}$'
           AND to_date(right(c.relname, 8), 'YYYYMMDD') < (now() AT TIME ZONE 'UTC')::date - recent_days
    LOOP
        -- Nobody may write between the look and the end of it; who does now is tried again another time.
        BEGIN
            EXECUTE format('LOCK TABLE rota.%I IN ACCESS EXCLUSIVE MODE', child);
        EXCEPTION WHEN lock_not_available THEN
            CONTINUE;
        END;
        EXECUTE format('SELECT EXISTS (SELECT FROM rota.%I AS c WHERE c.number = 0 AND NOT EXISTS (
                            SELECT FROM rota.kept_logs AS k
                             WHERE k.namespace = c.namespace AND k.run_id = c.run_id AND k.claim = c.claim))', child)
           INTO unkept;
        IF NOT unkept THEN
            EXECUTE format('DROP TABLE rota.%I', child);
            dropped := dropped + 1;
        END IF;
    END LOOP;
    RETURN dropped;
END
$$;

-- Every run, wherever it is; the columns that came later stand at the end.
CREATE OR REPLACE VIEW rota.runs AS
SELECT namespace, id, job_id, job_version, owner, name, task, pool, priority, tags, payload, payload_id,
       options, cause, retry_of, root_id, shard, nominal_at, run_at, attempt, losses, created_at,
       CASE WHEN attempt > 0 THEN 'retrying' ELSE 'scheduled' END AS status,
       'upcoming' AS place, NULL::text AS gate, NULL::timestamptz AS started_at,
       NULL::timestamptz AS finished_at, NULL::uuid AS worker_id, NULL::bigint AS claim,
       NULL::real AS progress, NULL::text AS progress_note, false AS cancel_requested,
       NULL::text AS error, NULL::text AS traceback, NULL::text AS result, NULL::text AS reason,
       expires_at, checkpoint, snoozes, NULL::text AS result_blob
  FROM rota.upcoming_runs
UNION ALL
SELECT namespace, id, job_id, job_version, owner, name, task, pool, priority, tags, payload, payload_id,
       options, cause, retry_of, root_id, shard, nominal_at, run_at, attempt, losses, created_at,
       'blocked', 'held', gate, NULL, NULL, NULL, NULL, NULL, NULL, false, NULL, NULL, NULL, NULL,
       expires_at, checkpoint, snoozes, NULL
  FROM rota.held_runs
UNION ALL
SELECT namespace, id, job_id, job_version, owner, name, task, pool, priority, tags, payload, payload_id,
       options, cause, retry_of, root_id, shard, nominal_at, run_at, attempt, losses, created_at,
       CASE WHEN worker_id IS NULL OR ready_at > now() THEN 'queued' ELSE 'running' END,
       'live', NULL, CASE WHEN ready_at <= now() THEN started_at END, NULL, worker_id, claim,
       progress, progress_note, cancel_requested_at IS NOT NULL, NULL, NULL, NULL, NULL,
       expires_at, checkpoint, snoozes, NULL
  FROM rota.live_runs
UNION ALL
SELECT namespace, id, job_id, job_version, owner, name, task, pool, priority, tags, payload, payload_id,
       options, cause, retry_of, root_id, shard, nominal_at, run_at, attempt, losses, created_at,
       status, 'finished', NULL, started_at, finished_at, worker_id, claim,
       progress, progress_note, cancel_requested, error, traceback, result, reason,
       expires_at, checkpoint, snoozes, result_blob
  FROM rota.finished_runs;
