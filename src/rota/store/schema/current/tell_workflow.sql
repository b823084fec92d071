-- Tells that a workflow run failed.
CREATE FUNCTION rota.tell_workflow() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO rota.events (namespace, kind, subject, detail, owner, data)
    VALUES (NEW.namespace, 'workflow.failed', 'wfr_' || replace(NEW.id::text, '-', ''),
            NEW.name || ': ' || coalesce('node ' || NEW.culprit || ' failed', 'the deadline passed'), NEW.owner,
            json_strip_nulls(json_build_object(
                'workflowRunId', 'wfr_' || replace(NEW.id::text, '-', ''), 'workflow', NEW.name,
                'workflowId', 'wf_' || replace(NEW.workflow_id::text, '-', ''), 'node', NEW.culprit,
                'isPart', NEW.root <> NEW.id, 'severity', 'warning'))::text);
    RETURN NULL;
END
$$;

CREATE TRIGGER tell_workflow AFTER UPDATE OF outcome ON rota.workflow_runs
    FOR EACH ROW WHEN (OLD.outcome IS NULL AND NEW.outcome = 'failed') EXECUTE FUNCTION rota.tell_workflow();
