-- Removes entries of the audit trail of a namespace that are older than its retention policy says; returns how many. The
-- only way to remove any: refuse_change lets this function through.
CREATE FUNCTION rota.trim_audit(space text, most integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    days    integer;
    trimmed uuid[];
BEGIN
    SELECT (r.policy ->> 'audit')::integer INTO days FROM rota.retention AS r WHERE r.namespace = space;
    IF days IS NULL THEN
        RETURN 0;
    END IF;
    PERFORM set_config('rota.trims_audit', 'yes', true);
    SELECT array_agg(old.id) INTO trimmed
      FROM (SELECT a.id, a.at FROM rota.audit AS a WHERE a.namespace = space ORDER BY a.id LIMIT most) AS old
     WHERE old.at < now() - make_interval(days => days);
    DELETE FROM rota.audit_outcomes AS o WHERE o.id = ANY (trimmed);
    DELETE FROM rota.audit AS a WHERE a.id = ANY (trimmed);
    PERFORM set_config('rota.trims_audit', '', true);
    RETURN coalesce(cardinality(trimmed), 0);
END
$$;
