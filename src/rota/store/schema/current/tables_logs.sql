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
    PRIMARY KEY (namespace, run_id, claim)
) PARTITION BY RANGE (run_id);
