-- How long things stay, and the days of history that were moved to object storage.

-- The retention policy of a namespace. Without a row, everything stays.
CREATE TABLE rota.retention (
    namespace  text COLLATE "C" PRIMARY KEY,
    policy     jsonb NOT NULL,              -- days by kind (domain/retention.py)
    changed_by text NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT now()
);

-- A partition of history on its way to object storage, or there. One transaction detaches it and says so here: at any
-- moment either the database or the archive has its runs.
--   planned    to be written; late_ends are noted from now on
--   written    its objects are there
--   verified   they were read back
--   detached   no longer part of history: the archive answers
--   dropped    the tables are gone
--   restoring  to be read back into the database
--   restored   part of history again, until restored_until; the objects are still there
CREATE TABLE rota.archives (
    period         text COLLATE "C" NOT NULL CHECK (period ~ '^[0-9]{6}([0-9]{2})?$'),  -- 20261118, or 202611 for a month
    number         integer NOT NULL,        -- 1; runs that ended after their day was dropped make another one
    state          text NOT NULL CHECK (state IN ('planned', 'written', 'verified', 'detached', 'dropped',
                                                  'restoring', 'restored')),
    revision       integer NOT NULL DEFAULT 1,  -- grows with each step: of two processes at it, one goes on
    first_id       uuid NOT NULL,           -- its ids, from here
    before_id      uuid NOT NULL,           -- to below this
    kept           jsonb NOT NULL,          -- by namespace: the outcomes that go to the archive
    index_key      text,                    -- the object that says what is where; null: nothing was left to archive
    index_hash     text,                    -- its SHA-256
    objects        text,                    -- the others (JSON): key, bytes, SHA-256, rows
    runs           bigint,                  -- that were archived
    attempts       bigint,
    left_out       bigint,                  -- runs that were not
    bytes          bigint,
    error          text,                    -- why it does not go on
    restored_until timestamptz,
    created_at     timestamptz NOT NULL DEFAULT now(),
    changed_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (period, number)
);

-- Rows that came to a period while it was being archived: it is written again. Insert only and without a key, so that a
-- late report waits for nothing here.
CREATE TABLE rota.late_ends (
    period text COLLATE "C" NOT NULL,
    at     timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX late_ends_of ON rota.late_ends (period);
