-- Whether a run waits that the calling role can't see, because it is ready in a pool the role is not bound to. A
-- submission that takes over a unique key must not conclude that its holder is gone.
CREATE FUNCTION rota.waits_unseen(of_namespace text, of_run uuid) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
BEGIN
    RETURN EXISTS (SELECT FROM rota.bound_to() AS b
                    WHERE b.pools IS NOT NULL AND (of_namespace = ANY (b.namespaces)) IS NOT FALSE)
       AND EXISTS (SELECT FROM rota.live_runs AS l
                    WHERE l.namespace = of_namespace AND l.id = of_run AND l.claim IS NULL);
END
$$;
