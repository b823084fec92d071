-- A clock that can be set. Run in a database before its migrations: whatever says now() or clock_timestamp() from then on, with
-- this schema before pg_catalog in its search path, gets these. No moment (as in the template): the real time.
CREATE SCHEMA rota_time;

CREATE TABLE rota_time.clock (moment timestamptz);
INSERT INTO rota_time.clock VALUES (NULL);

-- In PL/pgSQL, which keeps its plan: a statement may ask for the time a dozen times.
CREATE FUNCTION rota_time.now() RETURNS timestamptz LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
    RETURN coalesce((SELECT moment FROM rota_time.clock), pg_catalog.now());
END
$$;

CREATE FUNCTION rota_time.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql VOLATILE PARALLEL SAFE AS $$
BEGIN
    RETURN coalesce((SELECT moment FROM rota_time.clock), pg_catalog.clock_timestamp());
END
$$;

CREATE FUNCTION rota_time.statement_timestamp() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE RETURN rota_time.now();
CREATE FUNCTION rota_time.transaction_timestamp() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE RETURN rota_time.now();

GRANT USAGE ON SCHEMA rota_time TO PUBLIC;
GRANT SELECT ON rota_time.clock TO PUBLIC;
