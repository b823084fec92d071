-- Who may do what, and who did what.

-- Keys of programs and people, and the sessions of those who signed in with one. The secret itself is nowhere: it has 256
-- random bits, so that its SHA-256 tells nothing about it and needs neither salt nor stretching.
-- A session ends with what it was made of: `parent` is a key, `authority` the hash of the admin token or of what verifies JWTs.
CREATE TABLE rota.api_keys (
    id           uuid PRIMARY KEY,
    kind         text NOT NULL CHECK (kind IN ('key', 'session')),
    namespace    text COLLATE "C" NOT NULL,
    name         text NOT NULL,
    prefix       text COLLATE "C" NOT NULL UNIQUE,
    hash         bytea NOT NULL UNIQUE CHECK (octet_length(hash) = 32),
    owner        text NOT NULL,
    grants       jsonb NOT NULL,
    scopes       text[],
    identity     text NOT NULL DEFAULT 'key' CHECK (identity IN ('admin', 'key', 'jwt')),
    parent       uuid REFERENCES rota.api_keys (id),
    authority   bytea,
    created_at   timestamptz NOT NULL DEFAULT now(),
    created_by   text NOT NULL,
    expires_at   timestamptz,
    revoked_at   timestamptz,
    revoked_by   text,
    last_used_at timestamptz,
    CHECK (kind = 'key' OR expires_at IS NOT NULL)
);
CREATE INDEX api_keys_of_namespace ON rota.api_keys (namespace, id) WHERE kind = 'key';
CREATE INDEX api_keys_ended_sessions ON rota.api_keys (expires_at) WHERE kind = 'session';

-- What was asked for, written before it is done; how it ended, written afterwards. One without the other says that the
-- server died in between, and that the change may or may not have been made.
CREATE TABLE rota.audit (
    id        uuid PRIMARY KEY,
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    namespace text COLLATE "C" NOT NULL,
    actor     text NOT NULL,
    kind      text NOT NULL,
    key_id    uuid,
    source    text NOT NULL,
    action    text NOT NULL,
    object    text,
    request   jsonb
);
CREATE INDEX audit_of_namespace ON rota.audit (namespace, id);

CREATE TABLE rota.audit_outcomes (
    id     uuid PRIMARY KEY REFERENCES rota.audit (id),
    at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    status integer NOT NULL,
    object text,
    change jsonb
);

CREATE FUNCTION rota.refuse_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$ BEGIN RAISE EXCEPTION 'the audit trail is only ever added to'; END $$;
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON rota.audit
    FOR EACH STATEMENT EXECUTE FUNCTION rota.refuse_change();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON rota.audit_outcomes
    FOR EACH STATEMENT EXECUTE FUNCTION rota.refuse_change();

-- Whose job an event is about; null: nobody's in particular.
ALTER TABLE rota.events ADD COLUMN owner text;
CREATE INDEX events_of_namespace ON rota.events (namespace, id);
CREATE INDEX audit_of_actor ON rota.audit (namespace, actor, id);
