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
