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
