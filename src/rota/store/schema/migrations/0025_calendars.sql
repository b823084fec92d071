-- Business calendars: named lists of days that schedules leave out.
CREATE TABLE rota.calendars (
    namespace      text COLLATE "C" NOT NULL,
    name           text COLLATE "C" NOT NULL,
    revision       uuid NOT NULL,                        -- another one with each change of its days
    days           text NOT NULL,                        -- dates in order (JSON)
    number_of_days integer NOT NULL,
    changed_by     text NOT NULL,
    created_at     timestamptz NOT NULL DEFAULT now(),
    changed_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (namespace, name)
);

-- Which schedules name which calendars, ended ones too.
CREATE TABLE rota.calendar_uses (
    namespace text COLLATE "C" NOT NULL,
    calendar  text COLLATE "C" NOT NULL,
    job_id    uuid NOT NULL,
    PRIMARY KEY (namespace, calendar, job_id)
);
CREATE INDEX calendar_uses_of_job ON rota.calendar_uses (namespace, job_id);

ALTER TABLE rota.jobs
    ADD COLUMN excluded         text,         -- days that it leaves out (JSON); null: none
    ADD COLUMN excluded_next_at timestamptz;  -- next_fire_at, from a process that knows these days

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

-- A process of a release that doesn't know excluded days would compute a schedule's next fire time without them, and
-- fire it. It doesn't know excluded_next_at either, so that its statement is refused: it passes over the schedule, as over
-- any that it can't fire, and leaves it to a process that knows these days.
CREATE FUNCTION rota.refuse_unexcluded() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION 'a process of a release that does not know excluded days can not fire or change this schedule'
        USING ERRCODE = 'check_violation';
END
$$;

CREATE TRIGGER refuse_unexcluded BEFORE UPDATE ON rota.jobs
    FOR EACH ROW WHEN (NEW.excluded IS NOT NULL AND NEW.next_fire_at IS DISTINCT FROM NEW.excluded_next_at)
    EXECUTE FUNCTION rota.refuse_unexcluded();

REVOKE ALL ON FUNCTION rota.note_calendars(), rota.refuse_unexcluded() FROM PUBLIC;
