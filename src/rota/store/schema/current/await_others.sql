-- A run that depends on other jobs, and one that is a workflow run to be opened, come to the gate 'dependent' where any other
-- comes to 'new': a scheduler of a release that doesn't know these looks at 'new' alone, and would let them through as jobs.
-- Retries and runs that people start wait for no other job.
CREATE FUNCTION rota.await_others() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    NEW.gate := 'dependent';
    RETURN NEW;
END
$$;

CREATE TRIGGER await_others BEFORE INSERT OR UPDATE ON rota.held_runs
    FOR EACH ROW WHEN (NEW.gate = 'new' AND (NEW.policies ? 'opens' OR NEW.policies ? 'after' AND NEW.attempt = 0
                       AND NEW.snoozes = 0 AND NEW.cause IN ('submit', 'schedule')))
    EXECUTE FUNCTION rota.await_others();
