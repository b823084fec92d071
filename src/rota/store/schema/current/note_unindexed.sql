-- Notes a log in object storage that no block has, for the indexer.
CREATE FUNCTION rota.note_unindexed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO rota.unindexed_logs (namespace, run_id, claim, attempt, blob, first, length)
    VALUES (NEW.namespace, NEW.run_id, NEW.claim, NEW.attempt, NEW.blob, NEW.first, NEW.length)
    ON CONFLICT (namespace, run_id, claim) DO NOTHING;
    RETURN NULL;
END
$$;

CREATE TRIGGER note_unindexed AFTER INSERT ON rota.kept_logs
    FOR EACH ROW WHEN (NOT NEW.indexed) EXECUTE FUNCTION rota.note_unindexed();
