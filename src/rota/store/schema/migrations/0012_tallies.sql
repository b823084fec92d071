-- What workers did, in portions of five seconds: how many attempts started and how they ended, and how late they started. For
-- people and autoscalers who look at the last minutes; whatever must be exact is counted in the history itself.
--
-- Not logged: after a crash it begins anew, and nobody waits for the disk because of it.
-- `lags`: how many started within 1, 2, 4, … milliseconds of their time, each once, and last those that took longer still.
CREATE UNLOGGED TABLE rota.tallies (
    at        timestamptz NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    pool      text COLLATE "C" NOT NULL,
    worker_id uuid NOT NULL,
    started   bigint NOT NULL,
    succeeded bigint NOT NULL,
    failed    bigint NOT NULL,
    retried   bigint NOT NULL,
    lags      bigint[] NOT NULL CHECK (cardinality(lags) = 32),
    PRIMARY KEY (at, namespace, pool, worker_id)
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
