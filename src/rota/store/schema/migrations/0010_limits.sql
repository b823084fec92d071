-- Limits of tenants: how fast requests and jobs may come, how much may wait, how large things may be.

-- What a namespace, or somebody in it, may. `subject` is a key's id or an owner's name; '' is the namespace as a whole. Null: no
-- limit of that kind. Rows are never taken away, so that a server that reads what changed misses nothing: a limit that is lifted is
-- a row with a null. `number` is the change's place among all changes.
CREATE TABLE rota.limits (
    namespace             text COLLATE "C" NOT NULL,
    subject               text COLLATE "C" NOT NULL,
    requests_per_second   double precision CHECK (requests_per_second > 0),
    request_burst         integer CHECK (request_burst > 0),
    jobs_per_second       double precision CHECK (jobs_per_second > 0),
    job_burst             integer CHECK (job_burst > 0),
    most_waiting          bigint CHECK (most_waiting >= 0),
    largest_payload_bytes bigint CHECK (largest_payload_bytes > 0),
    largest_batch         integer CHECK (largest_batch > 0),
    most_fan_out          bigint CHECK (most_fan_out >= 0),
    changed_at            timestamptz NOT NULL,
    number                bigint NOT NULL,
    PRIMARY KEY (namespace, subject)
);
CREATE INDEX limits_changed ON rota.limits (number);

-- Counts changes. Whoever changes a limit holds this row until its commit, so numbers become visible in their order: who has read
-- up to one has read everything below it. A sequence or a clock would not promise that.
CREATE TABLE rota.limit_changes (
    number bigint NOT NULL
);
INSERT INTO rota.limit_changes (number) VALUES (0);

-- Token buckets, shared by all API servers. One without a row is full. `granted` is what the last who took was given: only a column
-- can be returned. Updated in place, many times a second: no index has a column that changes often, and pages have room.
CREATE TABLE rota.buckets (
    namespace  text COLLATE "C" NOT NULL,
    subject    text COLLATE "C" NOT NULL,
    kind       text COLLATE "C" NOT NULL CHECK (kind IN ('requests', 'jobs')),
    tokens     double precision NOT NULL,
    granted    bigint NOT NULL,
    counted_at timestamptz NOT NULL,
    full_at    timestamptz NOT NULL,
    PRIMARY KEY (namespace, subject, kind)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
