-- Payloads that runs of a detached period had, after a run: (namespace, run, payload, job), by the primary key.
CREATE FUNCTION rota.payloads_of_day(day text, part integer, after_namespace text, after_id uuid, most integer)
RETURNS TABLE (namespace text, id uuid, job_id uuid, payload_id uuid)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF to_regclass(format('rota.archived_finished_runs_%s_%s', day, part)) IS NOT NULL THEN
        RETURN QUERY EXECUTE format('SELECT r.namespace, r.id, r.job_id, r.payload_id FROM rota.%I AS r
                                      WHERE (r.namespace, r.id) > ($1, $2) ORDER BY r.namespace, r.id LIMIT $3',
                                    'archived_finished_runs_' || day || '_' || part)
         USING after_namespace, after_id, most;
    END IF;
END
$$;
