-- Writes archived rows into tables beside history, which it makes where they are missing. Safe to repeat.
-- Runs with its owner's rights, so that narrow roles can call it.
CREATE FUNCTION rota.restore_rows(day text, parent text, records jsonb) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    each    text;
    lowest  uuid;
    highest uuid;
    known   text;
    stored  integer;
BEGIN
    SELECT a.first_id, a.before_id INTO lowest, highest FROM rota.archives AS a
     WHERE a.period = day AND a.number = 1 AND a.state = 'restoring' FOR UPDATE;
    IF NOT FOUND OR parent NOT IN ('finished_runs', 'attempts', 'kept_logs') THEN
        RETURN 0;
    END IF;
    FOREACH each IN ARRAY ARRAY['finished_runs', 'attempts', 'kept_logs'] LOOP
        CONTINUE WHEN to_regclass('rota.restored_' || each || '_' || day) IS NOT NULL;
        EXECUTE format('CREATE TABLE rota.%I (LIKE rota.%I INCLUDING ALL)', 'restored_' || each || '_' || day, each);
        -- With it, ATTACH need not read the table.
        EXECUTE format('ALTER TABLE rota.%1$I ADD CONSTRAINT restored CHECK (%2$I >= %3$L AND %2$I < %4$L)',
                       'restored_' || each || '_' || day, CASE each WHEN 'finished_runs' THEN 'id' ELSE 'run_id' END,
                       lowest, highest);
    END LOOP;
    -- Columns that history has got since have their defaults.
    SELECT string_agg(quote_ident(c.attname), ', ' ORDER BY c.attnum) INTO known FROM pg_attribute AS c
     WHERE c.attrelid = ('rota.' || parent)::regclass AND c.attnum > 0 AND NOT c.attisdropped
       AND records -> 0 ? c.attname::text;
    IF known IS NULL THEN
        RETURN 0;
    END IF;
    EXECUTE format('INSERT INTO rota.%1$I (%2$s) SELECT %2$s FROM jsonb_populate_recordset(NULL::rota.%3$I, $1)'
                   ' ON CONFLICT DO NOTHING',
                   'restored_' || parent || '_' || day, known, parent) USING records;
    GET DIAGNOSTICS stored = ROW_COUNT;
    RETURN stored;
END
$$;
