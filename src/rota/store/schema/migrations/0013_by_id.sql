-- Many runs of one namespace, `rota.by_id(r.namespace) = :namespace AND r.id = ANY (:run_ids)`, in one text for all servers.
-- From version 17 on the function says nothing, is inlined away, and the index on (namespace, id) is asked for both. Before,
-- the namespace is compared in a way that no index serves, which leaves the indexes on the id alone (step 5): there
-- PostgreSQL looks up a list of values in the second column of an index only when its statistics say so, and may read the
-- whole namespace instead.
DO $$
BEGIN
    IF current_setting('server_version_num')::integer < 170000 THEN
        CREATE FUNCTION rota.by_id(namespace text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN namespace || '';
    ELSE
        CREATE FUNCTION rota.by_id(namespace text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN namespace;
    END IF;
END
$$;
