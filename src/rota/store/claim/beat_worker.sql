-- A worker's heartbeat, with what it did since the last one: a line for each namespace and pool, `lags` a row of 32 for
-- each line. Which beat it was, and of which server and database, lets the worker notice that these are not the ones it
-- knew. No row back: the worker was declared lost, and its claims with it.
-- Index: primary keys.
-- Locks: the worker's row, its tallies.
WITH kept AS (
    UPDATE rota.workers
       SET beat = beat + 1, beat_at = clock_timestamp(), busy = :busy, fenced = :fenced, draining = :draining,
           ailing = :ailing, clock_skew = :clock_skew::float8
     WHERE id = :worker_id AND gone_at IS NULL
    RETURNING id, beat
), tallied AS (
    INSERT INTO rota.tallies AS t (at, namespace, pool, worker_id, started, succeeded, failed, retried, lags)
    SELECT date_bin('5 seconds', now(), timestamptz '2000-01-01 00:00:00Z'), d.namespace, d.pool, kept.id,
           d.started, d.succeeded, d.failed, d.retried, ARRAY(SELECT unnest((:lags::bigint[])[d.line:d.line][1:32]))
      FROM kept, unnest(:namespaces::text[], :pools::text[], :started::bigint[], :succeeded::bigint[],
                        :failed::bigint[], :retried::bigint[])
                 WITH ORDINALITY AS d (namespace, pool, started, succeeded, failed, retried, line)
    ON CONFLICT (at, namespace, pool, worker_id) DO UPDATE
       SET started = t.started + excluded.started, succeeded = t.succeeded + excluded.succeeded,
           failed = t.failed + excluded.failed, retried = t.retried + excluded.retried,
           lags = ARRAY(SELECT a + b FROM unnest(t.lags, excluded.lags) WITH ORDINALITY AS u (a, b, n) ORDER BY n)
)
SELECT clock_timestamp() AS database_time, beat AS number, pg_postmaster_start_time() AS server_since,
       (SELECT oid::bigint FROM pg_database WHERE datname = current_database()) AS database_id
  FROM kept
