-- Events of workers, schedulers, dead letters, operations and workflows, and where events are sent.
ALTER TABLE rota.events ADD COLUMN is_copy boolean NOT NULL DEFAULT false;
ALTER TABLE rota.dead_letters ADD COLUMN owner text;
ALTER TABLE rota.schedulers ADD COLUMN lost_at timestamptz;

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

-- Tells of runs that were buried: one event for each task, namespace and owner of a statement, however many runs.
CREATE FUNCTION rota.tell_buried() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- Most reports bury nothing.
    IF NOT EXISTS (SELECT FROM buried) THEN
        RETURN NULL;
    END IF;
    INSERT INTO rota.events (namespace, kind, subject, detail, owner, data)
    SELECT b.namespace, 'run.buried', b.task, CASE WHEN b.runs > 1 THEN b.runs || ' runs; the first: ' ELSE '' END || b.error,
           b.owner,
           json_build_object('task', b.task, 'runs', b.runs, 'runId', b.run_ids[1], 'jobId', 'job_' || replace(b.job_id::text, '-', ''),
                             'name', b.name, 'error', b.error, 'runIds', to_json(b.run_ids), 'severity', 'warning')::text
      FROM (SELECT i.namespace, i.task, i.owner, count(*) AS runs,
                   (array_agg('run_' || replace(i.run_id::text, '-', '') ORDER BY i.run_id))[1:20] AS run_ids,
                   (array_agg(i.job_id ORDER BY i.run_id))[1] AS job_id,
                   (array_agg(i.name ORDER BY i.run_id))[1] AS name,
                   (array_agg(left(split_part(coalesce(i.error, ''), E'\n', 1), 300) ORDER BY i.run_id))[1] AS error
              FROM buried AS i GROUP BY i.namespace, i.task, i.owner) AS b;
    RETURN NULL;
END
$$;

CREATE TRIGGER tell_buried AFTER INSERT ON rota.dead_letters
    REFERENCING NEW TABLE AS buried FOR EACH STATEMENT EXECUTE FUNCTION rota.tell_buried();
REVOKE ALL ON FUNCTION rota.tell_buried() FROM PUBLIC;

-- Tells of a worker that joined, left or was lost: once for the installation, and in each namespace it serves what is
-- of that namespace.
CREATE FUNCTION rota.tell_worker() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    what text := CASE WHEN TG_OP = 'INSERT' THEN 'worker.joined' WHEN NEW.gone_why = 'stopped' THEN 'worker.left'
                      ELSE 'worker.lost' END;
BEGIN
    INSERT INTO rota.events (namespace, kind, subject, detail, data, is_copy)
    WITH held AS MATERIALIZED (
        SELECT l.namespace, count(*) AS runs, count(l.started_at) AS started
          FROM rota.live_runs AS l WHERE TG_OP = 'UPDATE' AND l.worker_id = NEW.id GROUP BY l.namespace
    ), places AS (
        SELECT '*' AS namespace, coalesce(sum(h.runs), 0)::bigint AS runs, coalesce(sum(h.started), 0)::bigint AS started
          FROM held AS h
        UNION ALL
        SELECT n.namespace, coalesce(h.runs, 0), coalesce(h.started, 0)
          FROM (SELECT DISTINCT unnest(NEW.namespaces) COLLATE "C" AS namespace) AS n
          LEFT JOIN held AS h ON h.namespace = n.namespace
    )
    SELECT p.namespace, what, NEW.id::text,
           NEW.host || CASE what WHEN 'worker.joined' THEN ', ' || NEW.slots || ' slots'
                                 WHEN 'worker.lost' THEN ', which held ' || p.runs || ' runs' ELSE '' END,
           json_strip_nulls(json_build_object(
               'workerId', NEW.id, 'host', NEW.host, 'pid', NEW.pid, 'pools', NEW.pools, 'slots', NEW.slots,
               'namespaces', CASE WHEN p.namespace = '*' THEN NEW.namespaces ELSE ARRAY[p.namespace] END,
               'held', CASE WHEN what <> 'worker.joined' THEN p.runs END,
               'started', CASE WHEN what <> 'worker.joined' THEN p.started END,
               'severity', CASE WHEN what = 'worker.lost' THEN 'warning' END))::text,
           p.namespace <> '*'
      FROM places AS p ORDER BY p.namespace;
    RETURN NULL;
END
$$;

CREATE TRIGGER tell_worker_joined AFTER INSERT ON rota.workers
    FOR EACH ROW EXECUTE FUNCTION rota.tell_worker();
CREATE TRIGGER tell_worker_gone AFTER UPDATE OF gone_at ON rota.workers
    FOR EACH ROW WHEN (OLD.gone_at IS NULL AND NEW.gone_at IS NOT NULL) EXECUTE FUNCTION rota.tell_worker();
REVOKE ALL ON FUNCTION rota.tell_worker() FROM PUBLIC;

-- Tells of a scheduler that started, stopped in good order, was lost, or came back after that.
CREATE FUNCTION rota.tell_scheduler() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    it   rota.schedulers := CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
    what text := CASE WHEN TG_OP = 'INSERT' THEN 'scheduler.started' WHEN TG_OP = 'DELETE' THEN 'scheduler.stopped'
                      WHEN NEW.lost_at IS NOT NULL THEN 'scheduler.lost' ELSE 'scheduler.returned' END;
BEGIN
    INSERT INTO rota.events (namespace, kind, subject, detail, data)
    VALUES ('*', what, it.id::text, it.host,
            json_strip_nulls(json_build_object('schedulerId', it.id, 'host', it.host, 'pid', it.pid,
                                               'severity', CASE WHEN what = 'scheduler.lost' THEN 'warning' END))::text);
    RETURN NULL;
END
$$;

CREATE TRIGGER tell_scheduler_started AFTER INSERT ON rota.schedulers
    FOR EACH ROW EXECUTE FUNCTION rota.tell_scheduler();
CREATE TRIGGER tell_scheduler_lost AFTER UPDATE OF lost_at ON rota.schedulers
    FOR EACH ROW WHEN ((OLD.lost_at IS NULL) <> (NEW.lost_at IS NULL)) EXECUTE FUNCTION rota.tell_scheduler();
-- The sweeper removes schedulers that fell silent long ago: they did not stop then.
CREATE TRIGGER tell_scheduler_stopped AFTER DELETE ON rota.schedulers
    FOR EACH ROW WHEN (OLD.beat_at > now() - interval '1 hour') EXECUTE FUNCTION rota.tell_scheduler();
REVOKE ALL ON FUNCTION rota.tell_scheduler() FROM PUBLIC;

-- Tells that a scheduler took shards from one that fell silent, once for all of the shards, and marks the silent one as
-- lost. Its row may be locked by a beat that hangs: nobody waits for that, and a later takeover marks it.
CREATE FUNCTION rota.tell_takeover() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    silent uuid[] := ARRAY(SELECT DISTINCT b.owner FROM before AS b JOIN later AS l ON l.shard = b.shard
                            WHERE b.owner IS NOT NULL AND l.owner IS NOT NULL AND l.owner <> b.owner);
BEGIN
    IF cardinality(silent) = 0 THEN
        RETURN NULL;
    END IF;
    UPDATE rota.schedulers AS s SET lost_at = clock_timestamp()
     WHERE s.id = ANY (ARRAY(SELECT i.id FROM rota.schedulers AS i WHERE i.id = ANY (silent) AND i.lost_at IS NULL
                              ORDER BY i.id FOR UPDATE SKIP LOCKED));
    INSERT INTO rota.events (namespace, kind, subject, detail, data)
    SELECT '*', 'scheduler.takeover', t.taker::text, t.shards || ' shards of ' || coalesce(s.host, t.silent::text),
           json_build_object('schedulerId', t.taker, 'from', t.silent, 'shards', t.shards)::text
      FROM (SELECT l.owner AS taker, b.owner AS silent, count(*) AS shards
              FROM before AS b JOIN later AS l ON l.shard = b.shard
             WHERE b.owner IS NOT NULL AND l.owner IS NOT NULL AND l.owner <> b.owner
             GROUP BY l.owner, b.owner) AS t
      LEFT JOIN rota.schedulers AS s ON s.id = t.silent;
    RETURN NULL;
END
$$;

CREATE TRIGGER tell_takeover AFTER UPDATE ON rota.shard_leases
    REFERENCING OLD TABLE AS before NEW TABLE AS later FOR EACH STATEMENT EXECUTE FUNCTION rota.tell_takeover();
REVOKE ALL ON FUNCTION rota.tell_takeover() FROM PUBLIC;

-- Tells that a backfill, replay or bulk act was completed, aborted, or stopped because too much of it failed.
CREATE FUNCTION rota.tell_operation() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO rota.events (namespace, kind, subject, detail, owner, data)
    VALUES (NEW.namespace,
            CASE NEW.state WHEN 'completed' THEN 'operation.completed' WHEN 'aborted' THEN 'operation.aborted'
                           ELSE 'operation.stopped' END,
            'op_' || replace(NEW.id::text, '-', ''), coalesce(NEW.reason, NEW.kind || ' of ' || NEW.made || ' runs'), NEW.owner,
            json_strip_nulls(json_build_object(
                'operationId', 'op_' || replace(NEW.id::text, '-', ''), 'operation', NEW.kind, 'made', NEW.made,
                'ended', NEW.ended, 'failed', NEW.failed, 'cancelled', NEW.cancelled, 'reason', NEW.reason,
                'severity', CASE WHEN NEW.state = 'stopped' THEN 'warning' END))::text);
    RETURN NULL;
END
$$;

CREATE TRIGGER tell_operation AFTER UPDATE OF state ON rota.operations
    FOR EACH ROW WHEN (OLD.state <> NEW.state AND NEW.state IN ('completed', 'aborted', 'stopped'))
    EXECUTE FUNCTION rota.tell_operation();
REVOKE ALL ON FUNCTION rota.tell_operation() FROM PUBLIC;

-- Tells that a workflow run failed.
CREATE FUNCTION rota.tell_workflow() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO rota.events (namespace, kind, subject, detail, owner, data)
    VALUES (NEW.namespace, 'workflow.failed', 'wfr_' || replace(NEW.id::text, '-', ''),
            NEW.name || ': ' || coalesce('node ' || NEW.culprit || ' failed', 'the deadline passed'), NEW.owner,
            json_strip_nulls(json_build_object(
                'workflowRunId', 'wfr_' || replace(NEW.id::text, '-', ''), 'workflow', NEW.name,
                'workflowId', 'wf_' || replace(NEW.workflow_id::text, '-', ''), 'node', NEW.culprit,
                'isPart', NEW.root <> NEW.id, 'severity', 'warning'))::text);
    RETURN NULL;
END
$$;

CREATE TRIGGER tell_workflow AFTER UPDATE OF outcome ON rota.workflow_runs
    FOR EACH ROW WHEN (OLD.outcome IS NULL AND NEW.outcome = 'failed') EXECUTE FUNCTION rota.tell_workflow();
REVOKE ALL ON FUNCTION rota.tell_workflow() FROM PUBLIC;
