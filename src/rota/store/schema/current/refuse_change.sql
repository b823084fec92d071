-- Keeps the audit trail append-only, against the schema's owner too; only retention removes its oldest entries
-- (trim_audit.sql).
CREATE FUNCTION rota.refuse_change() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('rota.trims_audit', true) = 'yes' THEN
        RETURN NULL;
    END IF;
    RAISE EXCEPTION 'the audit trail is only ever added to';
END
$$;

CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON rota.audit
    FOR EACH STATEMENT EXECUTE FUNCTION rota.refuse_change();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON rota.audit_outcomes
    FOR EACH STATEMENT EXECUTE FUNCTION rota.refuse_change();
