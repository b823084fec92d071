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
