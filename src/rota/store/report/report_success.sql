-- Records runs that succeeded: live -> finished, fenced by claim number. `namespaces`: those that occur; the other
-- arrays in the order of run ids, none twice (width_bucket finds a run's position in that order); `started` and `ended`
-- in seconds since the epoch. Gives how many moved (the others were not current under their claim), whether other runs
-- may wait behind them, and whether schedulers are to be told that nodes
-- of workflows ended: of many members they hear soon enough, because they look often then.
-- Index: primary key of live_runs, walked once.
-- Locks: the runs, in its order.
-- Idioms: by_id.
WITH taken AS (
    DELETE FROM rota.live_runs AS l
     WHERE rota.by_id(l.namespace) = ANY (:namespaces::text[]) AND l.id = ANY (:run_ids::uuid[])
       AND l.claim = (:claims::bigint[])[width_bucket(l.id, :run_ids::uuid[])]
    RETURNING {l.run}, l.claim, l.worker_id, l.progress, l.progress_note, l.cancel_requested_at
), placed AS (
    SELECT *, width_bucket(id, :run_ids::uuid[]) AS n FROM taken
), recorded AS (
    INSERT INTO rota.finished_runs ({run}, status, started_at, finished_at, worker_id, claim, progress,
                                    progress_note, cancel_requested, result, result_blob)
    SELECT namespace, id, job_id, job_version, owner, name, task, pool, priority, tags, payload, payload_id,
           options, cause, retry_of, root_id, shard, nominal_at, run_at, attempt + 1, losses, created_at,
           expires_at, checkpoint, snoozes, policies,
           'success', to_timestamp((:started::float8[])[n]), to_timestamp((:ended::float8[])[n]), worker_id, claim,
           progress,
           progress_note, cancel_requested_at IS NOT NULL, (:results::text[])[n], (:result_blobs::text[])[n]
      FROM placed
), departed AS (
    INSERT INTO rota.departures (namespace, run_id, job_id, policies, outcome)
    SELECT namespace, id, job_id, policies, 'success' FROM taken WHERE policies IS NOT NULL
)
SELECT count(*) AS written, bool_or(policies IS NOT NULL) AS gated,
       bool_or(cause IN ('node', 'backfill', 'replay', 'redrive'))
       OR count(*) FILTER (WHERE cause = 'member') BETWEEN 1 AND 8 AS flows
  FROM taken
