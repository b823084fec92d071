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
