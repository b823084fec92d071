-- Writes how the run of an operation ended to its row there. A run that is not there, such as one that was redriven by
-- itself, changes nothing.
CREATE FUNCTION rota.count_end() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    UPDATE rota.operation_runs AS r SET outcome = NEW.status, has_run = NEW.started_at IS NOT NULL
     WHERE r.namespace = NEW.namespace AND r.run_id = NEW.id AND r.outcome IS NULL;
    RETURN NULL;
END
$$;

CREATE TRIGGER count_end AFTER INSERT ON rota.finished_runs
    FOR EACH ROW WHEN (NEW.cause IN ('backfill', 'replay', 'redrive')) EXECUTE FUNCTION rota.count_end();
