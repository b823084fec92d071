-- Keeps the audit trail append-only, against the schema's owner too.
CREATE FUNCTION rota.refuse_change() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION 'the audit trail is only ever added to';
END
$$;

CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON rota.audit
    FOR EACH STATEMENT EXECUTE FUNCTION rota.refuse_change();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON rota.audit_outcomes
    FOR EACH STATEMENT EXECUTE FUNCTION rota.refuse_change();
