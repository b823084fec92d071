-- Makes the partitions that one UTC day belongs to, in every partitioned table of the schema; true: it made some.
-- A partition is the day's own, or its whole month's when the month is more than 31 days away: runs end in the far
-- future only when they are cancelled, and a day each would be a table each. A month that has days already (a clock was
-- ahead for a while) gets days, however far away it is.
-- Partitions are made apart and then attached: ATTACH lets readers and writers of the parent go on, where
-- CREATE ... PARTITION OF would lock them out. Runs with its owner's rights, so that narrow roles can call it.
CREATE FUNCTION rota.make_day(day date) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
SET timezone = 'UTC'
AS $$
DECLARE
    month   date := date_trunc('month', day);
    far     boolean := month > (now() AT TIME ZONE 'UTC')::date + 31;
    parent  text;
    monthly text;
    daily   text;
    whole   boolean;
    made    boolean := false;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('rota.make_day', 0));
    FOR parent IN SELECT relname FROM pg_class WHERE relnamespace = 'rota'::regnamespace AND relkind = 'p' LOOP
        monthly := parent || '_' || to_char(day, 'YYYYMM');
        daily := parent || '_' || to_char(day, 'YYYYMMDD');
        CONTINUE WHEN to_regclass('rota.' || monthly) IS NOT NULL OR to_regclass('rota.' || daily) IS NOT NULL;
        whole := far AND NOT EXISTS (
            SELECT FROM pg_class WHERE relnamespace = 'rota'::regnamespace AND relname ~ ('^' || monthly || '\d\d$'));
        EXECUTE format('CREATE TABLE rota.%I (LIKE rota.%I INCLUDING ALL)',
                       CASE WHEN whole THEN monthly ELSE daily END, parent);
        EXECUTE format('ALTER TABLE rota.%I ATTACH PARTITION rota.%I FOR VALUES FROM (%L) TO (%L)',
                       parent, CASE WHEN whole THEN monthly ELSE daily END,
                       rota.id_floor((CASE WHEN whole THEN month ELSE day END)::timestamp AT TIME ZONE 'UTC'),
                       rota.id_floor((CASE WHEN whole THEN (month + interval '1 month')::date
                                           ELSE day + 1 END)::timestamp AT TIME ZONE 'UTC'));
        made := true;
    END LOOP;
    RETURN made;
END
$$;
