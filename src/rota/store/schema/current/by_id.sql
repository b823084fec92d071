-- For statements that look up many ids of one namespace, `rota.by_id(r.namespace) = :namespace AND r.id = ANY (:run_ids)`:
-- before version 17 the namespace is compared apart, so that the indexes of indexes_before_17.sql serve; from 17 on this
-- says nothing and is inlined away.
DO $$
BEGIN
    IF current_setting('server_version_num')::integer < 170000 THEN
        CREATE FUNCTION rota.by_id(namespace text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN namespace || '';
    ELSE
        CREATE FUNCTION rota.by_id(namespace text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN namespace;
    END IF;
END
$$;
