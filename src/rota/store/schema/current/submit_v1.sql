-- Submits jobs in the caller's transaction: the function that programs call (gateway/transaction.py). Programs may be a
-- release older or newer than the schema, so its name carries a version, and what it takes and returns never changes.
-- It refuses namespaces that the caller's role is not bound to; submit_unbound.sql does the rest and shows the JSON.
-- Runs with its owner's rights: a role needs nothing in this schema but USAGE and EXECUTE.
CREATE FUNCTION rota.submit_v1(jobs text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
DECLARE
    bound text[] := (SELECT b.namespaces FROM rota.bound_to() AS b);
    other text;
BEGIN
    IF bound IS NOT NULL THEN
        SELECT coalesce(j.job ->> 'namespace', 'none') INTO other
          FROM jsonb_array_elements(jobs::jsonb) AS j (job)
         WHERE (j.job ->> 'namespace' = ANY (bound)) IS NOT TRUE LIMIT 1;
        IF FOUND THEN
            RAISE insufficient_privilege USING MESSAGE = format(
                'the database role %s may submit in these namespaces alone: %s (not in %s)',
                session_user, array_to_string(bound, ', '), other);
        END IF;
    END IF;
    RETURN rota.submit_unbound(jobs);
END
$$;
