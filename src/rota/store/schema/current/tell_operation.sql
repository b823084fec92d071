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
