-- Roles of the database that are narrower than the owner of this schema: which there are, and what a bound one may reach.
--
-- Who may do what to which table, and call which function, is in store/rights.py, and is granted by `rota database-roles` and after
-- every migration (store/granting.py); nobody else may.
-- Here is what rights alone can't say: functions that do for a narrow role what only the owner may, and keep to what it is
-- bound to.

-- `namespaces`, `pools`: what a role is bound to; null: not at all.
CREATE TABLE rota.database_roles (
    role       name PRIMARY KEY,
    kind       text NOT NULL CHECK (kind IN ('server', 'worker', 'submitter')),
    namespaces text[],
    pools      text[]
);

-- What the role that logged in is bound to. A member of bound roles is bound by each of them, also when it does not inherit
-- their rights: it could take them by SET ROLE, which a function with its owner's rights does not see. The owner, and whoever has
-- its rights, is not bound.
CREATE FUNCTION rota.bound_to(OUT namespaces text[], OUT pools text[])
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    mine name[];
BEGIN
    IF NOT EXISTS (SELECT FROM rota.database_roles AS b WHERE b.namespaces IS NOT NULL OR b.pools IS NOT NULL)
       OR pg_has_role(session_user, (SELECT nspowner FROM pg_namespace WHERE nspname = 'rota'), 'USAGE') THEN
        RETURN;
    END IF;
    mine := ARRAY(SELECT b.role FROM rota.database_roles AS b JOIN pg_roles AS r ON r.rolname = b.role
                   WHERE pg_has_role(session_user, r.oid, 'MEMBER'));
    SELECT ARRAY(SELECT n FROM rota.database_roles AS b, unnest(b.namespaces) AS n WHERE b.role = ANY (mine)
                  GROUP BY n HAVING count(DISTINCT b.role) = bound.roles ORDER BY n)
      INTO bound_to.namespaces
      FROM (SELECT count(b.namespaces) AS roles FROM rota.database_roles AS b WHERE b.role = ANY (mine)) AS bound
     WHERE bound.roles > 0;
    SELECT ARRAY(SELECT p FROM rota.database_roles AS b, unnest(b.pools) AS p WHERE b.role = ANY (mine)
                  GROUP BY p HAVING count(DISTINCT b.role) = bound.roles ORDER BY p)
      INTO bound_to.pools
      FROM (SELECT count(b.pools) AS roles FROM rota.database_roles AS b WHERE b.role = ANY (mine)) AS bound
     WHERE bound.roles > 0;
END
$$;

-- The view shows to everybody what their own rights on its tables show them.
ALTER VIEW rota.runs SET (security_invoker = true);

-- Making and dropping the partitions of days takes the owner's rights.
ALTER FUNCTION rota.make_day(date) SECURITY DEFINER SET search_path = pg_catalog, pg_temp;
ALTER FUNCTION rota.drop_log_days(integer) SECURITY DEFINER SET search_path = pg_catalog, pg_temp;

-- Whether a run waits that the caller can't see: it is ready, in a pool that a role bound to others does not see. Whoever takes
-- over a unique key must not think that nobody has it.
CREATE FUNCTION rota.waits_unseen(of_namespace text, of_run uuid) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
BEGIN
    RETURN EXISTS (SELECT FROM rota.bound_to() AS b WHERE b.pools IS NOT NULL AND (of_namespace = ANY (b.namespaces)) IS NOT FALSE)
       AND EXISTS (SELECT FROM rota.live_runs AS l WHERE l.namespace = of_namespace AND l.id = of_run AND l.claim IS NULL);
END
$$;

-- The functions that transactions of others call keep their names, and their rights with these; what they did until now goes
-- by another name, which nobody but the owner may call.
DO $$
BEGIN
    EXECUTE replace(pg_get_functiondef('rota.submit_v1(text)'::regprocedure), 'FUNCTION rota.submit_v1(', 'FUNCTION rota.submit_unbound(');
    EXECUTE replace(pg_get_functiondef('rota.complete_v1(text, uuid, bigint, timestamptz, text, text)'::regprocedure),
                    'FUNCTION rota.complete_v1(', 'FUNCTION rota.complete_unbound(');
END
$$;

CREATE OR REPLACE FUNCTION rota.submit_v1(jobs text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    bound text[] := (SELECT b.namespaces FROM rota.bound_to() AS b);
    other text;
BEGIN
    IF bound IS NOT NULL THEN
        SELECT coalesce(j.job ->> 'namespace', 'none') INTO other FROM jsonb_array_elements(jobs::jsonb) AS j (job)
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

CREATE OR REPLACE FUNCTION rota.complete_v1(of_namespace text, of_run uuid, of_claim bigint, began_at timestamptz, returned text, kept_at text)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $$
DECLARE
    bound record;
BEGIN
    SELECT b.namespaces, b.pools INTO bound FROM rota.bound_to() AS b;
    IF bound.namespaces IS NOT NULL AND (of_namespace = ANY (bound.namespaces)) IS NOT TRUE THEN
        RETURN false;
    END IF;
    IF bound.pools IS NOT NULL AND NOT EXISTS (
           SELECT FROM rota.live_runs AS l WHERE l.namespace = of_namespace AND l.id = of_run AND l.pool = ANY (bound.pools)) THEN
        RETURN false;
    END IF;
    RETURN rota.complete_unbound(of_namespace, of_run, of_claim, began_at, returned, kept_at);
END
$$;

-- What a narrow role writes is read by schedulers on everybody's behalf, and must not stop them. Values that they can't use are
-- passed over where they are read; what an index or a cast of a statement would fail on is refused here.
ALTER TABLE rota.submission_keys ADD CHECK (kind <> 'unique' OR answer ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$');
ALTER TABLE rota.upcoming_runs ADD CHECK (policies IS NULL OR coalesce(jsonb_typeof(policies -> 'order'), 'string') = 'string');
ALTER TABLE rota.held_runs ADD CHECK (policies IS NULL OR coalesce(jsonb_typeof(policies -> 'order'), 'string') = 'string');
ALTER TABLE rota.live_runs ADD CHECK (policies IS NULL OR coalesce(jsonb_typeof(policies -> 'order'), 'string') = 'string');
ALTER TABLE rota.jobs ADD CHECK (policies IS NULL OR coalesce(jsonb_typeof(policies -> 'order'), 'string') = 'string');
