-- What runs write: first as chunks, then as objects in object storage.

-- Orders the chunks of a run: one worker writes them one after the other, so it grows with the commits.
CREATE SEQUENCE rota.log_positions AS bigint;

-- What runs wrote, as it came. Insert only; partitioned like the history.
CREATE TABLE rota.log_chunks (
    namespace text COLLATE "C" NOT NULL,
    run_id    uuid NOT NULL,
    claim     bigint NOT NULL,
    number    integer NOT NULL,     -- of the chunk within its attempt, from 0
    position  bigint NOT NULL,      -- from rota.log_positions
    attempt   integer NOT NULL,     -- 1 for the first
    last      boolean NOT NULL,     -- whether the attempt's log ends with it
    body      text NOT NULL,        -- a few lines, `time stream text` each
    PRIMARY KEY (namespace, run_id, claim, number)
) PARTITION BY RANGE (run_id);

-- Attempts whose last chunk was written and whose log is not in object storage yet.
CREATE TABLE rota.log_ends (
    namespace text COLLATE "C" NOT NULL,
    run_id    uuid NOT NULL,
    claim     bigint NOT NULL,
    ended_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (namespace, run_id, claim)
);
CREATE INDEX log_ends_oldest ON rota.log_ends (ended_at);

-- Where in object storage the log of an attempt is. Partitioned like the history.
CREATE TABLE rota.kept_logs (
    namespace text COLLATE "C" NOT NULL,
    run_id    uuid NOT NULL,
    claim     bigint NOT NULL,
    attempt   integer NOT NULL,     -- 1 for the first
    position  bigint NOT NULL,      -- of its first chunk: orders the attempts of a run
    blob      text NOT NULL,        -- the object's key; many short logs share one
    first     bigint NOT NULL,      -- the first byte in it
    length    integer NOT NULL,     -- how many bytes
    indexed   boolean NOT NULL DEFAULT false,  -- whether a block has this log
    PRIMARY KEY (namespace, run_id, claim)
) PARTITION BY RANGE (run_id);

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
