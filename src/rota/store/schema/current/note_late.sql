-- Notes a row that came to a period which is being archived. A trigger of that period's partitions alone (watch_day.sql).
CREATE FUNCTION rota.note_late() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO rota.late_ends (period) VALUES (TG_ARGV[0]);
    RETURN NULL;
END
$$;
