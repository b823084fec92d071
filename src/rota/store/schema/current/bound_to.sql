-- What the role that logged in is bound to; null: nothing. A member of bound roles is bound by each of them, even when
-- it does not inherit their rights: it could take them by SET ROLE, which a function with its owner's rights does not
-- see. The owner, and roles with its rights, are not bound.
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
