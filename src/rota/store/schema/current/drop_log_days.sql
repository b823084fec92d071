-- Drops the chunks of days that ended so many days ago and are wholly in object storage; returns how many days it
-- dropped. Runs with its owner's rights, so that narrow roles can call it.
CREATE FUNCTION rota.drop_log_days(recent_days integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET lock_timeout = '1s'
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    child   text;
    unkept  boolean;
    dropped integer := 0;
BEGIN
    FOR child IN
        SELECT c.relname FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
         WHERE i.inhparent = 'rota.log_chunks'::regclass AND c.relname ~ '^log_chunks_\d{8}$'
           AND to_date(right(c.relname, 8), 'YYYYMMDD') < (now() AT TIME ZONE 'UTC')::date - recent_days
    LOOP
        -- No write may come between the look and the drop; a table in use is tried again another time.
        BEGIN
            EXECUTE format('LOCK TABLE rota.%I IN ACCESS EXCLUSIVE MODE', child);
        EXCEPTION WHEN lock_not_available THEN
            CONTINUE;
        END;
        EXECUTE format('SELECT EXISTS (SELECT FROM rota.%I AS c WHERE c.number = 0 AND NOT EXISTS (
                            SELECT FROM rota.kept_logs AS k
                             WHERE k.namespace = c.namespace AND k.run_id = c.run_id AND k.claim = c.claim))', child)
           INTO unkept;
        IF NOT unkept THEN
            EXECUTE format('DROP TABLE rota.%I', child);
            dropped := dropped + 1;
        END IF;
    END LOOP;
    RETURN dropped;
END
$$;
