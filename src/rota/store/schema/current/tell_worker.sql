-- Tells of a worker that joined, left or was lost: once for the installation, and in each namespace it serves what is
-- of that namespace.
CREATE FUNCTION rota.tell_worker() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    what text := CASE WHEN TG_OP = 'INSERT' THEN 'worker.joined' WHEN NEW.gone_why = 'stopped' THEN 'worker.left'
                      ELSE 'worker.lost' END;
BEGIN
    INSERT INTO rota.events (namespace, kind, subject, detail, data, is_copy)
    WITH held AS MATERIALIZED (
        SELECT l.namespace, count(*) AS runs, count(l.started_at) AS started
          FROM rota.live_runs AS l WHERE TG_OP = 'UPDATE' AND l.worker_id = NEW.id GROUP BY l.namespace
    ), places AS (
        SELECT '*' AS namespace, coalesce(sum(h.runs), 0)::bigint AS runs, coalesce(sum(h.started), 0)::bigint AS started
          FROM held AS h
        UNION ALL
        SELECT n.namespace, coalesce(h.runs, 0), coalesce(h.started, 0)
          FROM (SELECT DISTINCT unnest(NEW.namespaces) COLLATE "C" AS namespace) AS n
          LEFT JOIN held AS h ON h.namespace = n.namespace
    )
    SELECT p.namespace, what, NEW.id::text,
           NEW.host || CASE what WHEN 'worker.joined' THEN ', ' || NEW.slots || ' slots'
                                 WHEN 'worker.lost' THEN ', which held ' || p.runs || ' runs' ELSE '' END,
           json_strip_nulls(json_build_object(
               'workerId', NEW.id, 'host', NEW.host, 'pid', NEW.pid, 'pools', NEW.pools, 'slots', NEW.slots,
               'namespaces', CASE WHEN p.namespace = '*' THEN NEW.namespaces ELSE ARRAY[p.namespace] END,
               'held', CASE WHEN what <> 'worker.joined' THEN p.runs END,
               'started', CASE WHEN what <> 'worker.joined' THEN p.started END,
               'severity', CASE WHEN what = 'worker.lost' THEN 'warning' END))::text,
           p.namespace <> '*'
      FROM places AS p ORDER BY p.namespace;
    RETURN NULL;
END
$$;

CREATE TRIGGER tell_worker_joined AFTER INSERT ON rota.workers
    FOR EACH ROW EXECUTE FUNCTION rota.tell_worker();
CREATE TRIGGER tell_worker_gone AFTER UPDATE OF gone_at ON rota.workers
    FOR EACH ROW WHEN (OLD.gone_at IS NULL AND NEW.gone_at IS NOT NULL) EXECUTE FUNCTION rota.tell_worker();
