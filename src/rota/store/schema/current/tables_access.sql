-- Access: keys and sessions, the audit trail, the limits of tenants, database roles.

-- API keys, and the sessions of users who signed in. The secret itself is stored nowhere: it has 256 random bits, so
-- its SHA-256 tells nothing about it and needs neither salt nor stretching.
CREATE TABLE rota.api_keys (
    id           uuid PRIMARY KEY,
    kind         text NOT NULL CHECK (kind IN ('key', 'session')),
    namespace    text COLLATE "C" NOT NULL,                            -- where it was made
    name         text NOT NULL,                                        -- what people call it
    prefix       text COLLATE "C" NOT NULL UNIQUE,                     -- its first characters, to recognise it by
    hash         bytea NOT NULL UNIQUE CHECK (octet_length(hash) = 32),
    owner        text NOT NULL,                                        -- who acts with it
    grants       jsonb NOT NULL,                                       -- the role in each namespace
    scopes       text[],                                               -- narrows the role; null: all of its rights
    identity     text NOT NULL DEFAULT 'key' CHECK (identity IN ('admin', 'key', 'jwt')),  -- how the user signed in
    parent       uuid REFERENCES rota.api_keys (id),                   -- the key a session was made with, and ends with
    authority    bytea,                                                -- or the hash of the admin token or JWT settings
    created_at   timestamptz NOT NULL DEFAULT now(),
    created_by   text NOT NULL,
    expires_at   timestamptz,                                          -- null: never (keys only)
    revoked_at   timestamptz,
    revoked_by   text,
    last_used_at timestamptz,                                          -- written at most once a minute
    CONSTRAINT api_keys_check CHECK (kind = 'key' OR expires_at IS NOT NULL)
);
CREATE INDEX api_keys_of_namespace ON rota.api_keys (namespace, id) WHERE kind = 'key';
CREATE INDEX api_keys_ended_sessions ON rota.api_keys (expires_at) WHERE kind = 'session';

-- What was asked for, written before it is done. A row without an outcome means that the server died in between, and
-- the change may or may not have been made. Append-only (refuse_change.sql).
CREATE TABLE rota.audit (
    id        uuid PRIMARY KEY,
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    namespace text COLLATE "C" NOT NULL,
    actor     text NOT NULL,    -- the owner of the key or session
    kind      text NOT NULL,    -- how the actor signed in: admin, key, jwt
    key_id    uuid,
    source    text NOT NULL,    -- the client's address
    action    text NOT NULL,    -- the operation of the API
    object    text,             -- the job, run, key, … it was about
    request   jsonb
);
CREATE INDEX audit_of_namespace ON rota.audit (namespace, id);
CREATE INDEX audit_of_actor ON rota.audit (namespace, actor, id);

-- How it ended, written afterwards. Append-only.
CREATE TABLE rota.audit_outcomes (
    id     uuid PRIMARY KEY REFERENCES rota.audit (id),
    at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    status integer NOT NULL,    -- the HTTP status
    object text,                -- what was made
    change jsonb                -- what was changed
);

-- Limits of tenants; null: no limit of that kind. Rows are never removed, so that a server that reads what changed
-- misses nothing: a limit that is lifted is a row with a null.
CREATE TABLE rota.limits (
    namespace             text COLLATE "C" NOT NULL,
    subject               text COLLATE "C" NOT NULL,   -- a key's id or an owner's name; '': the namespace as a whole
    requests_per_second   double precision CHECK (requests_per_second > 0),
    request_burst         integer CHECK (request_burst > 0),
    jobs_per_second       double precision CHECK (jobs_per_second > 0),
    job_burst             integer CHECK (job_burst > 0),
    most_waiting          bigint CHECK (most_waiting >= 0),            -- the backlog
    largest_payload_bytes bigint CHECK (largest_payload_bytes > 0),
    largest_batch         integer CHECK (largest_batch > 0),
    most_fan_out          bigint CHECK (most_fan_out >= 0),            -- jobs that one run may submit
    changed_at            timestamptz NOT NULL,
    number                bigint NOT NULL,             -- the change's place among all changes
    PRIMARY KEY (namespace, subject)
);
CREATE INDEX limits_changed ON rota.limits (number);

-- Counts changes of limits, in one row. A change holds this row until its commit, so numbers become visible in their
-- order: a server that has read up to one has read everything below it. A sequence or a clock would not promise that.
CREATE TABLE rota.limit_changes (
    number bigint NOT NULL
);
INSERT INTO rota.limit_changes (number) VALUES (0);

-- Token buckets, shared by all API servers; one without a row is full. Updated in place many times a second: no index
-- has a column that changes, and pages have room.
CREATE TABLE rota.buckets (
    namespace  text COLLATE "C" NOT NULL,
    subject    text COLLATE "C" NOT NULL,     -- as in rota.limits
    kind       text COLLATE "C" NOT NULL CHECK (kind IN ('requests', 'jobs')),
    tokens     double precision NOT NULL,     -- how many were left
    granted    bigint NOT NULL,               -- how many the last taker got: only a column can be returned
    counted_at timestamptz NOT NULL,
    full_at    timestamptz NOT NULL,          -- the sweeper removes the row then
    PRIMARY KEY (namespace, subject, kind)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Database roles that are narrower than the schema's owner (store/schema/database_roles.py).
CREATE TABLE rota.database_roles (
    role       name PRIMARY KEY,
    kind       text NOT NULL CHECK (kind IN ('server', 'worker', 'submitter')),
    namespaces text[],    -- which it is bound to; null: not bound
    pools      text[]     -- which it is bound to; null: not bound
);
