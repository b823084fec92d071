-- Tells of runs that were buried: one event for each task, namespace and owner of a statement, however many runs.
CREATE FUNCTION rota.tell_buried() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- Most reports bury nothing.
    IF NOT EXISTS (SELECT FROM buried) THEN
        RETURN NULL;
    END IF;
    INSERT INTO rota.events (namespace, kind, subject, detail, owner, data)
    SELECT b.namespace, 'run.buried', b.task, CASE WHEN b.runs > 1 THEN b.runs || ' runs; the first: ' ELSE '' END || b.error,
           b.owner,
           json_build_object('task', b.task, 'runs', b.runs, 'runId', b.run_ids[1], 'jobId', 'job_' || replace(b.job_id::text, '-', ''),
                             'name', b.name, 'error', b.error, 'runIds', to_json(b.run_ids), 'severity', 'warning')::text
      FROM (SELECT i.namespace, i.task, i.owner, count(*) AS runs,
                   (array_agg('run_' || replace(i.run_id::text, '-', '') ORDER BY i.run_id))[1:20] AS run_ids,
                   (array_agg(i.job_id ORDER BY i.run_id))[1] AS job_id,
                   (array_agg(i.name ORDER BY i.run_id))[1] AS name,
                   (array_agg(left(split_part(coalesce(i.error, ''), E'\n', 1), 300) ORDER BY i.run_id))[1] AS error
              FROM buried AS i GROUP BY i.namespace, i.task, i.owner) AS b;
    RETURN NULL;
END
$$;

CREATE TRIGGER tell_buried AFTER INSERT ON rota.dead_letters
    REFERENCING NEW TABLE AS buried FOR EACH STATEMENT EXECUTE FUNCTION rota.tell_buried();
