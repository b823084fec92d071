-- Leaves a note of the end of a node's run for the conductor of its workflow run.
CREATE FUNCTION rota.note_end() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    is_member boolean := NEW.cause = 'member';
    is_lost   boolean := NEW.cause = 'member' AND NEW.status <> 'success';
BEGIN
    INSERT INTO rota.flow_notes (shard, namespace, flow, node, run_id, outcome, item, payload, payload_id, is_member,
                                 result, result_blob, reason)
    VALUES (NEW.shard, NEW.namespace, NEW.job_id, NEW.job_version, NEW.id,
            CASE NEW.status WHEN 'skipped' THEN 'expired' ELSE NEW.status END,
            CASE WHEN is_lost OR is_member AND (NEW.result <> 'null' OR NEW.result_blob IS NOT NULL)
                 THEN (NEW.options::json -> 'item')::text::integer END,
            CASE WHEN is_lost THEN NEW.payload END, CASE WHEN is_lost THEN NEW.payload_id END, is_member,
            NEW.result, NEW.result_blob, coalesce(NEW.error, NEW.reason));
    RETURN NULL;
END
$$;

CREATE TRIGGER note_end AFTER INSERT ON rota.finished_runs
    FOR EACH ROW WHEN (NEW.cause IN ('node', 'member')) EXECUTE FUNCTION rota.note_end();
