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
