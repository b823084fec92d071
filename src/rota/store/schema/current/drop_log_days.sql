-- Drops log partitions (days and months) that ended `recent_days` ago and are wholly in object storage; returns how
-- many it dropped. Runs with its owner's rights, so that narrow roles can call it.
CREATE FUNCTION rota.drop_log_days(recent_days integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET lock_timeout = '1s'
SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
AS $$
DECLARE
    child   text;
    unkept  boolean;
    dropped integer := 0;
BEGIN
    FOR child IN
        SELECT c.relname
          FROM pg_inherits AS i
          JOIN pg_class AS c ON c.oid = i.inhrelid
         CROSS JOIN LATERAL substring(c.relname FROM '^log_chunks_(\d{6}|\d{8})$') AS period
         WHERE i.inhparent = 'rota.log_chunks'::regclass
           AND CASE length(period) WHEN 8 THEN to_date(period, 'YYYYMMDD') + 1
                                   WHEN 6 THEN (to_date(period, 'YYYYMM') + interval '1 month')::date END
               <= (now() AT TIME ZONE 'UTC')::date - recent_days
    LOOP
        -- No write may come between the look and the drop, and dropping locks the parent: a table in use is tried again
        -- another time.
        BEGIN
            EXECUTE format('LOCK TABLE rota.%I IN ACCESS EXCLUSIVE MODE', child);
            EXECUTE format('SELECT EXISTS (SELECT FROM rota.%I AS c WHERE c.number = 0 AND NOT EXISTS (
                                SELECT FROM rota.kept_logs AS k
                                 WHERE k.namespace = c.namespace AND k.run_id = c.run_id AND k.claim = c.claim))', child)
               INTO unkept;
            IF NOT unkept THEN
                EXECUTE format('DROP TABLE rota.%I', child);
                dropped := dropped + 1;
            END IF;
        EXCEPTION WHEN lock_not_available THEN
            CONTINUE;
        END;
    END LOOP;
    RETURN dropped;
END
$$;
