-- Records a run's success in the caller's transaction: the function that transactional tasks end with
-- (store/report/task_transactions.py). False: the claim is not current any more, or the caller's role is not bound to
-- the run's namespace or pool; the caller must roll back. complete_unbound.sql does the work. Versioned like submit_v1.
--   returned, kept_at   the result (JSON), or its key in object storage
CREATE FUNCTION rota.complete_v1(
    of_namespace text, of_run uuid, of_claim bigint, began_at timestamptz, returned text, kept_at text
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
SET lock_timeout = '30s'
AS $$
DECLARE
    bound record;
BEGIN
    SELECT b.namespaces, b.pools INTO bound FROM rota.bound_to() AS b;
    IF bound.namespaces IS NOT NULL AND (of_namespace = ANY (bound.namespaces)) IS NOT TRUE THEN
        RETURN false;
    END IF;
    IF bound.pools IS NOT NULL AND NOT EXISTS (
           SELECT FROM rota.live_runs AS l
            WHERE l.namespace = of_namespace AND l.id = of_run AND l.pool = ANY (bound.pools)) THEN
        RETURN false;
    END IF;
    RETURN rota.complete_unbound(of_namespace, of_run, of_claim, began_at, returned, kept_at);
END
$$;
