-- A worker's heartbeat, with what it did since the last one: a line for each namespace and pool, `lags` and `durations` a
-- row of 32 for each line; now and then also by task. Which beat it was, and of which server and database, lets the worker notice that these are not the ones it
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
    INSERT INTO rota.tallies AS t (at, namespace, pool, worker_id, started, succeeded, failed, retried, lags, durations,
                                   run_seconds)
    SELECT date_bin('5 seconds', now(), timestamptz '2000-01-01 00:00:00Z'), d.namespace, d.pool, kept.id,
           d.started, d.succeeded, d.failed, d.retried, ARRAY(SELECT unnest((:lags::bigint[])[d.line:d.line][1:32])),
           ARRAY(SELECT unnest((:durations::bigint[])[d.line:d.line][1:32])), d.run_seconds
      FROM kept, unnest(:namespaces::text[], :pools::text[], :started::bigint[], :succeeded::bigint[],
                        :failed::bigint[], :retried::bigint[], :run_seconds::float8[])
                 WITH ORDINALITY AS d (namespace, pool, started, succeeded, failed, retried, run_seconds, line)
    ON CONFLICT (at, namespace, pool, worker_id) DO UPDATE
       SET started = t.started + excluded.started, succeeded = t.succeeded + excluded.succeeded,
           failed = t.failed + excluded.failed, retried = t.retried + excluded.retried,
           lags = ARRAY(SELECT a + b FROM unnest(t.lags, excluded.lags) WITH ORDINALITY AS u (a, b, n) ORDER BY n),
           durations = ARRAY(SELECT a + b FROM unnest(t.durations, excluded.durations) WITH ORDINALITY AS u (a, b, n)
                              ORDER BY n),
           run_seconds = t.run_seconds + excluded.run_seconds
), tasks_tallied AS (
    INSERT INTO rota.task_tallies AS t (at, namespace, task, worker_id, started, succeeded, failed, retried, lags,
                                        durations, run_seconds)
    SELECT date_bin('1 minute', now(), timestamptz '2000-01-01 00:00:00Z'), d.namespace, d.task, kept.id,
           d.started, d.succeeded, d.failed, d.retried,
           ARRAY(SELECT unnest((:task_lags::bigint[])[d.line:d.line][1:32])),
           ARRAY(SELECT unnest((:task_durations::bigint[])[d.line:d.line][1:32])), d.run_seconds
      FROM kept, unnest(:task_namespaces::text[], :tasks::text[], :task_started::bigint[], :task_succeeded::bigint[],
                        :task_failed::bigint[], :task_retried::bigint[], :task_run_seconds::float8[])
                 WITH ORDINALITY AS d (namespace, task, started, succeeded, failed, retried, run_seconds, line)
    ON CONFLICT (at, namespace, task, worker_id) DO UPDATE
       SET started = t.started + excluded.started, succeeded = t.succeeded + excluded.succeeded,
           failed = t.failed + excluded.failed, retried = t.retried + excluded.retried,
           lags = ARRAY(SELECT a + b FROM unnest(t.lags, excluded.lags) WITH ORDINALITY AS u (a, b, n) ORDER BY n),
           durations = ARRAY(SELECT a + b FROM unnest(t.durations, excluded.durations) WITH ORDINALITY AS u (a, b, n)
                              ORDER BY n),
           run_seconds = t.run_seconds + excluded.run_seconds
)
SELECT clock_timestamp() AS database_time, beat AS number, pg_postmaster_start_time() AS server_since,
       (SELECT oid::bigint FROM pg_database WHERE datname = current_database()) AS database_id
  FROM kept
