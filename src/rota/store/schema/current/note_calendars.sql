-- Writes which calendars a schedule names, from the days that it leaves out.
CREATE FUNCTION rota.note_calendars() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    DELETE FROM rota.calendar_uses AS u WHERE u.namespace = NEW.namespace AND u.job_id = NEW.id;
    INSERT INTO rota.calendar_uses (namespace, calendar, job_id)
    SELECT NEW.namespace, calendar, NEW.id
      FROM jsonb_object_keys(coalesce(NEW.excluded::jsonb -> 'revisions', '{}')) AS calendar;
    RETURN NULL;
END
$$;

CREATE TRIGGER note_new_calendars AFTER INSERT ON rota.jobs
    FOR EACH ROW WHEN (NEW.excluded IS NOT NULL) EXECUTE FUNCTION rota.note_calendars();
CREATE TRIGGER note_calendars AFTER UPDATE ON rota.jobs
    FOR EACH ROW WHEN (NEW.excluded IS DISTINCT FROM OLD.excluded) EXECUTE FUNCTION rota.note_calendars();
