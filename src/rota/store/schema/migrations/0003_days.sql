-- Makes the partitions that one UTC day belongs to, as before: its own, or that of its whole month when the month is
-- still more than 31 days away. New: a month that has days already (a clock was ahead for a while) gets days, however far
-- it is; and every partitioned table of the schema is served, whichever there are.
CREATE OR REPLACE FUNCTION rota.make_day(day date) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    month  date := date_trunc('month', day);
    far    boolean := month > (now() AT TIME ZONE 'UTC')::date + 31;
    parent text;
    monthly text;
    daily  text;
    whole  boolean;
    made   boolean := false;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('rota.make_day', 0));
    FOR parent IN SELECT relname FROM pg_class WHERE relnamespace = 'rota'::regnamespace AND relkind = 'p' LOOP
        monthly := parent || '_' || to_char(day, 'YYYYMM');
        daily := parent || '_' || to_char(day, 'YYYYMMDD');
        CONTINUE WHEN to_regclass('rota.' || monthly) IS NOT NULL OR to_regclass('rota.' || daily) IS NOT NULL;
        whole := far AND NOT EXISTS (SELECT FROM pg_class
                                      WHERE relnamespace = 'rota'::regnamespace AND relname ~ ('^' || monthly || '\d\d$'));
        EXECUTE format('CREATE TABLE rota.%I (LIKE rota.%I INCLUDING ALL)', CASE WHEN whole THEN monthly ELSE daily END, parent);
        EXECUTE format('ALTER TABLE rota.%I ATTACH PARTITION rota.%I FOR VALUES FROM (%L) TO (%L)',
                       parent, CASE WHEN whole THEN monthly ELSE daily END,
                       rota.id_floor((CASE WHEN whole THEN month ELSE day END)::timestamp AT TIME ZONE 'UTC'),
                       rota.id_floor((CASE WHEN whole THEN (month + interval '1 month')::date ELSE day + 1 END)::timestamp
                                     AT TIME ZONE 'UTC'));
        made := true;
    END LOOP;
    RETURN made;
END
$$;
