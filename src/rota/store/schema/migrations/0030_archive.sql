-- Retention, and days of history in object storage.
-- The retention policy of a namespace. Without a row, everything stays.
CREATE TABLE rota.retention (
    namespace  text COLLATE "C" PRIMARY KEY,
    policy     jsonb NOT NULL,              -- days by kind (domain/retention.py)
    changed_by text NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT now()
);

-- A partition of history on its way to object storage, or there. One transaction detaches it and says so here: at any
-- moment either the database or the archive has its runs.
--   planned    to be written; late_ends are noted from now on
--   written    its objects are there
--   verified   they were read back
--   detached   no longer part of history: the archive answers
--   dropped    the tables are gone
--   restoring  to be read back into the database
--   restored   part of history again, until restored_until; the objects are still there
CREATE TABLE rota.archives (
    period         text COLLATE "C" NOT NULL CHECK (period ~ '^[0-9]{6}([0-9]{2})?$'),  -- 20261118, or 202611 for a month
    number         integer NOT NULL,        -- 1; runs that ended after their day was dropped make another one
    state          text NOT NULL CHECK (state IN ('planned', 'written', 'verified', 'detached', 'dropped',
                                                  'restoring', 'restored')),
    revision       integer NOT NULL DEFAULT 1,  -- grows with each step: of two processes at it, one goes on
    first_id       uuid NOT NULL,           -- its ids, from here
    before_id      uuid NOT NULL,           -- to below this
    kept           jsonb NOT NULL,          -- by namespace: the outcomes that go to the archive
    index_key      text,                    -- the object that says what is where; null: nothing was left to archive
    index_hash     text,                    -- its SHA-256
    objects        text,                    -- the others (JSON): key, bytes, SHA-256, rows
    runs           bigint,                  -- that were archived
    attempts       bigint,
    left_out       bigint,                  -- runs that were not
    bytes          bigint,
    error          text,                    -- why it does not go on
    restored_until timestamptz,
    created_at     timestamptz NOT NULL DEFAULT now(),
    changed_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (period, number)
);

-- Rows that came to a period while it was being archived: it is written again. Insert only and without a key, so that a
-- late report waits for nothing here.
CREATE TABLE rota.late_ends (
    period text COLLATE "C" NOT NULL,
    at     timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX late_ends_of ON rota.late_ends (period);

-- Notes a row that came to a period which is being archived. A trigger of that period's partitions alone (watch_day.sql).
CREATE FUNCTION rota.note_late() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO rota.late_ends (period) VALUES (TG_ARGV[0]);
    RETURN NULL;
END
$$;

-- From its commit on, rows that come to a period of history are noted in late_ends; false: the period has no partition.
-- What was committed before is visible to every later statement, so nothing is missed between the two.
-- Runs with its owner's rights, so that narrow roles can call it.
CREATE FUNCTION rota.watch_day(day text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET lock_timeout = '1s'
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    child text;
BEGIN
    IF day !~ '^[0-9]{6}([0-9]{2})?$' OR to_regclass('rota.finished_runs_' || day) IS NULL THEN
        RETURN false;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('rota.watch_day', 0));  -- of two, one makes the triggers
    DELETE FROM rota.late_ends AS l WHERE l.period = day;
    FOREACH child IN ARRAY ARRAY['finished_runs_', 'attempts_', 'kept_logs_'] LOOP
        CONTINUE WHEN to_regclass('rota.' || child || day) IS NULL OR EXISTS (
            SELECT FROM pg_trigger AS t WHERE t.tgrelid = to_regclass('rota.' || child || day) AND t.tgname = 'note_late');
        EXECUTE format('CREATE TRIGGER note_late AFTER INSERT ON rota.%I FOR EACH ROW EXECUTE FUNCTION rota.note_late(%L)',
                       child || day, day);
    END LOOP;
    RETURN true;
END
$$;

-- What still needs the runs of a period: null, or a word for it. Reads a few entries of each index, namespace by namespace.
CREATE FUNCTION rota.holds_day(first uuid, before uuid) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    space text := '';
BEGIN
    IF EXISTS (SELECT FROM rota.operations AS o WHERE o.ended_at IS NULL AND o.kind IN ('replay', 'redrive')) THEN
        RETURN 'an open operation reads history';
    END IF;
    IF EXISTS (SELECT FROM rota.workflow_runs AS w WHERE w.ended_at IS NULL
                  AND (w.id >= first AND w.id < before OR w.carrier_id >= first AND w.carrier_id < before)) THEN
        RETURN 'a workflow run is open';
    END IF;
    LOOP
        SELECT min(n.namespace COLLATE "C") INTO space
          FROM (
                (SELECT r.namespace FROM rota.live_runs AS r WHERE r.namespace > space ORDER BY r.namespace LIMIT 1)
                UNION ALL
                (SELECT r.namespace FROM rota.upcoming_runs AS r WHERE r.namespace > space ORDER BY r.namespace LIMIT 1)
                UNION ALL
                (SELECT r.namespace FROM rota.held_runs AS r WHERE r.namespace > space ORDER BY r.namespace LIMIT 1)
                UNION ALL
                (SELECT r.namespace FROM rota.dead_letters AS r WHERE r.namespace > space ORDER BY r.namespace LIMIT 1)
                UNION ALL
                (SELECT r.namespace FROM rota.dependencies AS r WHERE r.namespace > space ORDER BY r.namespace LIMIT 1)
               ) AS n;
        EXIT WHEN space IS NULL;
        IF EXISTS (SELECT FROM rota.live_runs AS r WHERE r.namespace = space AND r.id >= first AND r.id < before)
           OR EXISTS (SELECT FROM rota.upcoming_runs AS r WHERE r.namespace = space AND r.id >= first AND r.id < before)
           OR EXISTS (SELECT FROM rota.held_runs AS r WHERE r.namespace = space AND r.id >= first AND r.id < before) THEN
            RETURN 'a run has not ended';
        END IF;
        IF EXISTS (SELECT FROM rota.dead_letters AS d
                    WHERE d.namespace = space AND d.run_id >= first AND d.run_id < before) THEN
            RETURN 'a dead letter was not dealt with';
        END IF;
        IF EXISTS (SELECT FROM rota.dependencies AS d
                    WHERE d.namespace = space AND d.needs >= first AND d.needs < before AND d.look_at IS NOT NULL) THEN
            RETURN 'a job depends on a run';
        END IF;
    END LOOP;
    RETURN NULL;
END
$$;

-- Takes a verified period out of history, and says so in rota.archives, in one transaction. Null: done. Else why not:
-- 'late' rows came since it was written; or what still needs it; or 'busy', when a table is in use: try again.
-- DETACH locks the parents out. It waits for that a fifth of a second at most, and then holds it for a few milliseconds;
-- CONCURRENTLY can't be done in the same transaction, and not with an owner's rights. Renamed, so that make_day can make
-- the day again for a late run.
CREATE FUNCTION rota.detach_day(day text, part integer) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET lock_timeout = '200ms'
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    archive rota.archives;
    parent  text;
    reason  text;
BEGIN
    SELECT * INTO archive FROM rota.archives AS a WHERE a.period = day AND a.number = part FOR UPDATE;
    IF archive.state IS DISTINCT FROM 'verified' THEN
        RETURN 'it is not verified';
    END IF;
    reason := rota.holds_day(archive.first_id, archive.before_id);
    IF reason IS NOT NULL THEN
        RETURN reason;
    END IF;
    LOCK TABLE rota.attempts, rota.kept_logs, rota.finished_runs IN ACCESS EXCLUSIVE MODE;
    -- Late rows are committed, or their transaction begins again and makes the day anew: nothing is under way now.
    IF EXISTS (SELECT FROM rota.late_ends AS l WHERE l.period = day) THEN
        RETURN 'late';
    END IF;
    reason := rota.holds_day(archive.first_id, archive.before_id);
    IF reason IS NOT NULL THEN
        RETURN reason;
    END IF;
    FOREACH parent IN ARRAY ARRAY['finished_runs', 'attempts', 'kept_logs'] LOOP
        CONTINUE WHEN to_regclass('rota.' || parent || '_' || day) IS NULL;
        EXECUTE format('ALTER TABLE rota.%I DETACH PARTITION rota.%I', parent, parent || '_' || day);
        EXECUTE format('ALTER TABLE rota.%I RENAME TO %I', parent || '_' || day,
                       'archived_' || parent || '_' || day || '_' || part);
    END LOOP;
    UPDATE rota.archives AS a
       SET state = 'detached', revision = a.revision + 1, error = NULL, restored_until = NULL, changed_at = now()
     WHERE a.period = day AND a.number = part;
    RETURN NULL;
EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
    RETURN 'busy';
END
$$;

-- Drops the tables of a detached period. Nothing else refers to them, so nothing waits.
CREATE FUNCTION rota.drop_day(day text, part integer) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET lock_timeout = '1s'
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    parent text;
BEGIN
    PERFORM FROM rota.archives AS a WHERE a.period = day AND a.number = part AND a.state = 'detached' FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    FOREACH parent IN ARRAY ARRAY['finished_runs', 'attempts', 'kept_logs'] LOOP
        EXECUTE format('DROP TABLE IF EXISTS rota.%I', 'archived_' || parent || '_' || day || '_' || part);
    END LOOP;
    UPDATE rota.archives AS a SET state = 'dropped', revision = a.revision + 1, error = NULL, changed_at = now()
     WHERE a.period = day AND a.number = part;
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END
$$;

-- Payloads that runs of a detached period had, after a run: (namespace, run, payload, job), by the primary key.
CREATE FUNCTION rota.payloads_of_day(day text, part integer, after_namespace text, after_id uuid, most integer)
RETURNS TABLE (namespace text, id uuid, job_id uuid, payload_id uuid)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF to_regclass(format('rota.archived_finished_runs_%s_%s', day, part)) IS NOT NULL THEN
        RETURN QUERY EXECUTE format('SELECT r.namespace, r.id, r.job_id, r.payload_id FROM rota.%I AS r
                                      WHERE (r.namespace, r.id) > ($1, $2) ORDER BY r.namespace, r.id LIMIT $3',
                                    'archived_finished_runs_' || day || '_' || part)
         USING after_namespace, after_id, most;
    END IF;
END
$$;

-- Writes archived rows into tables beside history, which it makes where they are missing. Safe to repeat.
-- Runs with its owner's rights, so that narrow roles can call it.
CREATE FUNCTION rota.restore_rows(day text, parent text, records jsonb) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    each    text;
    lowest  uuid;
    highest uuid;
    known   text;
    stored  integer;
BEGIN
    SELECT a.first_id, a.before_id INTO lowest, highest FROM rota.archives AS a
     WHERE a.period = day AND a.number = 1 AND a.state = 'restoring' FOR UPDATE;
    IF NOT FOUND OR parent NOT IN ('finished_runs', 'attempts', 'kept_logs') THEN
        RETURN 0;
    END IF;
    FOREACH each IN ARRAY ARRAY['finished_runs', 'attempts', 'kept_logs'] LOOP
        CONTINUE WHEN to_regclass('rota.restored_' || each || '_' || day) IS NOT NULL;
        EXECUTE format('CREATE TABLE rota.%I (LIKE rota.%I INCLUDING ALL)', 'restored_' || each || '_' || day, each);
        -- With it, ATTACH need not read the table.
        EXECUTE format('ALTER TABLE rota.%1$I ADD CONSTRAINT restored CHECK (%2$I >= %3$L AND %2$I < %4$L)',
                       'restored_' || each || '_' || day, CASE each WHEN 'finished_runs' THEN 'id' ELSE 'run_id' END,
                       lowest, highest);
    END LOOP;
    -- Columns that history has got since have their defaults.
    SELECT string_agg(quote_ident(c.attname), ', ' ORDER BY c.attnum) INTO known FROM pg_attribute AS c
     WHERE c.attrelid = ('rota.' || parent)::regclass AND c.attnum > 0 AND NOT c.attisdropped
       AND records -> 0 ? c.attname::text;
    IF known IS NULL THEN
        RETURN 0;
    END IF;
    EXECUTE format('INSERT INTO rota.%1$I (%2$s) SELECT %2$s FROM jsonb_populate_recordset(NULL::rota.%3$I, $1)'
                   ' ON CONFLICT DO NOTHING',
                   'restored_' || parent || '_' || day, known, parent) USING records;
    GET DIAGNOSTICS stored = ROW_COUNT;
    RETURN stored;
END
$$;

-- Makes restored rows a part of history again, in one transaction with what rota.archives says. Rows that came to the
-- period meanwhile go with them. False: a table is in use; try again.
CREATE FUNCTION rota.attach_day(day text, until timestamptz) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET lock_timeout = '1s'
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    first_id  uuid;
    before_id uuid;
    parent    text;
    late      boolean := false;
    came      integer;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('rota.make_day', 0));
    PERFORM FROM rota.archives AS a WHERE a.period = day FOR UPDATE;
    SELECT a.first_id, a.before_id INTO first_id, before_id
      FROM rota.archives AS a WHERE a.period = day AND a.state = 'restoring' AND a.number = 1;
    IF first_id IS NULL THEN
        RETURN false;
    END IF;
    LOCK TABLE rota.attempts, rota.kept_logs, rota.finished_runs IN SHARE UPDATE EXCLUSIVE MODE;
    FOREACH parent IN ARRAY ARRAY['finished_runs', 'attempts', 'kept_logs'] LOOP
        IF to_regclass('rota.' || parent || '_' || day) IS NOT NULL THEN
            EXECUTE format('ALTER TABLE rota.%I DETACH PARTITION rota.%I', parent, parent || '_' || day);
            EXECUTE format('INSERT INTO rota.%I SELECT * FROM rota.%I ON CONFLICT DO NOTHING',
                           'restored_' || parent || '_' || day, parent || '_' || day);
            GET DIAGNOSTICS came = ROW_COUNT;
            late := late OR came > 0;
            EXECUTE format('DROP TABLE rota.%I', parent || '_' || day);
        END IF;
        EXECUTE format('ALTER TABLE rota.%I RENAME TO %I', 'restored_' || parent || '_' || day, parent || '_' || day);
        EXECUTE format('ALTER TABLE rota.%I ATTACH PARTITION rota.%I FOR VALUES FROM (%L) TO (%L)',
                       parent, parent || '_' || day, first_id, before_id);
    END LOOP;
    PERFORM rota.watch_day(day);
    -- Several archives, or new rows: the day will be written again, as one.
    late := late OR EXISTS (SELECT FROM rota.archives AS a WHERE a.period = day AND a.number > 1);
    IF late THEN
        INSERT INTO rota.late_ends (period) VALUES (day);
    END IF;
    DELETE FROM rota.archives AS a WHERE a.period = day AND a.number > 1;
    UPDATE rota.archives AS a
       SET state = 'restored', revision = a.revision + 1, restored_until = until, error = NULL, changed_at = now()
     WHERE a.period = day;
    RETURN true;
EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
    RETURN false;
END
$$;

-- Removes entries of the audit trail of a namespace that are older than its retention policy says; returns how many. The
-- only way to remove any: refuse_change lets this function through.
CREATE FUNCTION rota.trim_audit(space text, most integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    days    integer;
    trimmed uuid[];
BEGIN
    SELECT (r.policy ->> 'audit')::integer INTO days FROM rota.retention AS r WHERE r.namespace = space;
    IF days IS NULL THEN
        RETURN 0;
    END IF;
    PERFORM set_config('rota.trims_audit', 'yes', true);
    SELECT array_agg(old.id) INTO trimmed
      FROM (SELECT a.id, a.at FROM rota.audit AS a WHERE a.namespace = space ORDER BY a.id LIMIT most) AS old
     WHERE old.at < now() - make_interval(days => days);
    DELETE FROM rota.audit_outcomes AS o WHERE o.id = ANY (trimmed);
    DELETE FROM rota.audit AS a WHERE a.id = ANY (trimmed);
    PERFORM set_config('rota.trims_audit', '', true);
    RETURN coalesce(cardinality(trimmed), 0);
END
$$;

-- Keeps the audit trail append-only, against the schema's owner too; only retention removes its oldest entries
-- (trim_audit.sql).
CREATE OR REPLACE FUNCTION rota.refuse_change() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('rota.trims_audit', true) = 'yes' THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION 'the audit trail is only ever added to';
END
$$;

REVOKE ALL ON FUNCTION rota.note_late() FROM PUBLIC;
REVOKE ALL ON FUNCTION rota.watch_day(text) FROM PUBLIC;
REVOKE ALL ON FUNCTION rota.holds_day(uuid, uuid) FROM PUBLIC;
REVOKE ALL ON FUNCTION rota.detach_day(text, integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION rota.drop_day(text, integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION rota.payloads_of_day(text, integer, text, uuid, integer) FROM PUBLIC;
REVOKE ALL ON FUNCTION rota.restore_rows(text, text, jsonb) FROM PUBLIC;
REVOKE ALL ON FUNCTION rota.attach_day(text, timestamptz) FROM PUBLIC;
REVOKE ALL ON FUNCTION rota.trim_audit(text, integer) FROM PUBLIC;
