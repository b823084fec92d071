-- Search of logs: which blocks of text in object storage can contain a text. And logs that go elsewhere.

-- Whether a block has this log. The release before leaves it false, for the trigger below.
ALTER TABLE rota.kept_logs ADD COLUMN indexed boolean NOT NULL DEFAULT false;

-- Logs of several attempts, of one owner and about one time, and what can be in them (domain/log_index.py): a stretch of
-- an object that logs share, or logs with an object each. Partitioned like the history; its runs are of one day.
CREATE TABLE rota.log_blocks (
    namespace text COLLATE "C" NOT NULL,
    last_run  uuid NOT NULL,            -- the latest of its runs
    blob      text COLLATE "C" NOT NULL,  -- the object's key; of the first log if each has its own
    first     bigint NOT NULL,          -- the first byte in it
    length    integer NOT NULL,         -- how many bytes
    first_run uuid NOT NULL,            -- the earliest of its runs
    owner     text COLLATE "C",         -- whose runs they are; null: not known, and seen only by those who see all
    members   bytea NOT NULL,           -- run, claim, attempt and length of each log
    filter    bytea NOT NULL,           -- a bit for each short sequence of letters, and for each label of a run
    PRIMARY KEY (namespace, last_run, blob, first)
) PARTITION BY RANGE (last_run);
-- A search reads one byte here and there.
ALTER TABLE rota.log_blocks ALTER COLUMN filter SET STORAGE EXTERNAL;
CREATE INDEX log_blocks_owned ON rota.log_blocks (namespace, owner, last_run);

-- Logs in object storage that no block has: an older release has copied them after this one came.
CREATE TABLE rota.unindexed_logs (
    namespace text COLLATE "C" NOT NULL,
    run_id    uuid NOT NULL,
    claim     bigint NOT NULL,
    attempt   integer NOT NULL,
    blob      text NOT NULL,
    first     bigint NOT NULL,
    length    integer NOT NULL,
    PRIMARY KEY (namespace, run_id, claim)
);

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

REVOKE ALL ON FUNCTION rota.note_unindexed FROM PUBLIC;

-- How far the logs from before this release are indexed: the last one of kept_logs, in the order of its key. One row.
CREATE TABLE rota.log_walk (
    namespace text COLLATE "C" NOT NULL,
    run_id    uuid NOT NULL,
    claim     bigint NOT NULL,
    ended     boolean NOT NULL          -- whether nothing is left
);
INSERT INTO rota.log_walk (namespace, run_id, claim, ended)
VALUES ('', '00000000-0000-0000-0000-000000000000', 0, NOT EXISTS (SELECT FROM rota.kept_logs));

-- Logs that are to be sent to where ROTA_LOG_EXPORT_URL says. Of an attempt that goes on: what was sent so far.
CREATE TABLE rota.log_exports (
    namespace text COLLATE "C" NOT NULL,
    run_id    uuid NOT NULL,
    claim     bigint NOT NULL,
    lines     integer NOT NULL DEFAULT 0,   -- how many were sent
    chunk     integer NOT NULL DEFAULT 0,   -- the first chunk that was not
    ended_at  timestamptz,                  -- since when the whole log is in object storage; null: the attempt goes on
    PRIMARY KEY (namespace, run_id, claim)
);
CREATE INDEX log_exports_ended ON rota.log_exports (ended_at) WHERE ended_at IS NOT NULL;
