-- Records attempts that did not succeed, fenced by claim number, each by its disposition:
--   retry    -> upcoming after its delay, or ready at once;   bury -> finished (failed) + dead letter;
--   release  -> ready again, uncharged: what was admitted and not started stays so;
--   cancel   -> finished (cancelled);                         skip -> finished (skipped), with the error as its reason;
--   snooze   -> upcoming after its delay, uncharged.
-- A run that was recalled, because its job changed, goes to the gate instead: the scheduler looks what its job says.
-- One with policies that is ready at once passes its gates again; departures tell admission which runs left. A run that
-- was started has lost its expiry: that concerns the first start only. A run whose cancel was asked for is cancelled
-- whatever the disposition: cancelling ends all its retries.
-- `started` and `ended` are seconds since the epoch (started null: not started); `checkpoints` that were not written
-- before.
-- Index: primary key of live_runs.
-- Locks: the runs, in the order given: callers sort by id.
-- Idioms: one-element array, by_id.
WITH input AS (
    SELECT * FROM unnest(:namespaces::text[], :run_ids::uuid[], :claims::bigint[], :dispositions::text[],
                         :charged::boolean[], :losses::boolean[],
                         :delays::float8[], :started::float8[], :ended::float8[], :outcomes::text[], :errors::text[],
                         :tracebacks::text[], :checkpoints::text[])
        AS i (namespace, id, claim, disposition, charged, loss, delay, started, ended, outcome, error, traceback,
              new_checkpoint)
), taken AS (
    DELETE FROM rota.live_runs AS l
     USING input AS i
     WHERE rota.by_id(l.namespace) = ANY (ARRAY[i.namespace]) AND l.id = ANY (ARRAY[i.id]) AND l.claim = i.claim
    RETURNING {l.run}, l.claim, l.worker_id, l.ready_at, l.progress, l.progress_note, l.recalled,
              l.cancel_requested_at IS NOT NULL AS cancel_requested, i.disposition AS judged, i.charged, i.loss,
              i.delay, to_timestamp(i.started) AS started_at, to_timestamp(i.ended) AS finished_at,
              i.outcome, i.error, i.traceback, i.new_checkpoint
), moved AS (
    SELECT namespace, id, job_id, job_version, owner, name, task, pool, priority, tags, payload, payload_id,
           options, cause, retry_of, root_id, shard, nominal_at, run_at,
           attempt + charged::integer AS attempt,
           CASE WHEN loss THEN losses + 1 WHEN charged THEN 0 ELSE losses END AS losses, created_at,
           CASE WHEN started_at IS NULL AND NOT charged THEN expires_at END AS expires_at,
           coalesce(new_checkpoint, checkpoint) AS checkpoint,
           snoozes + (judged = 'snooze')::integer AS snoozes, policies,
           claim, worker_id, ready_at, progress, progress_note, recalled, cancel_requested, charged, delay,
           started_at, finished_at, outcome, error, traceback,
           CASE WHEN cancel_requested OR judged = 'cancel' THEN 'cancel'
                WHEN judged IN ('retry', 'release', 'snooze') AND recalled THEN 'hold'
                WHEN policies IS NOT NULL AND judged IN ('retry', 'snooze') AND delay <= 0 THEN 'gate'
                WHEN policies IS NOT NULL AND judged = 'release' AND started_at IS NOT NULL THEN 'gate'
                WHEN judged IN ('retry', 'snooze') AND delay > 0 THEN 'wait'
                WHEN judged IN ('retry', 'release', 'snooze') THEN 'ready'
                ELSE judged END AS fate
      FROM taken
), tried AS (
    INSERT INTO rota.attempts (namespace, run_id, claim, number, worker_id, started_at, finished_at, outcome,
                               error, traceback)
    SELECT namespace, id, claim, attempt + (NOT charged)::integer, worker_id, started_at, finished_at, outcome,
           error, traceback
      FROM moved
     WHERE (started_at IS NOT NULL OR outcome = 'lost') AND outcome <> 'snoozed'
), ended AS (
    INSERT INTO rota.finished_runs ({run}, status, started_at, finished_at, worker_id, claim, progress,
                                    progress_note, cancel_requested, error, traceback, reason)
    SELECT {run}, CASE fate WHEN 'bury' THEN 'failed' WHEN 'skip' THEN 'skipped' ELSE 'cancelled' END, started_at,
           finished_at, worker_id, claim, progress, progress_note, cancel_requested,
           CASE WHEN fate <> 'skip' THEN error END, traceback,
           CASE fate WHEN 'cancel' THEN 'cancelled on request' WHEN 'skip' THEN error END
      FROM moved
     WHERE fate IN ('bury', 'cancel', 'skip')
), buried AS (
    INSERT INTO rota.dead_letters (namespace, run_id, job_id, name, task, error, owner)
    SELECT namespace, id, job_id, name, task, error, owner FROM moved WHERE fate = 'bury'
), waiting AS (
    INSERT INTO rota.upcoming_runs ({run})
    SELECT namespace, id, job_id, job_version, owner, name, task, pool, priority, tags, payload, payload_id,
           options, cause, retry_of, root_id, shard, nominal_at, now() + make_interval(secs => delay),
           attempt, losses, created_at, expires_at, checkpoint, snoozes, policies
      FROM moved
     WHERE fate = 'wait'
), held AS (
    INSERT INTO rota.held_runs ({run}, gate)
    SELECT namespace, id, job_id, job_version, owner, name, task, pool, priority, tags, payload, payload_id,
           options, cause, retry_of, root_id, shard, nominal_at,
           CASE WHEN delay > 0 THEN now() + make_interval(secs => delay) ELSE run_at END,
           attempt, losses, created_at, expires_at, checkpoint, snoozes, policies, 'recall'
      FROM moved
     WHERE fate = 'hold'
), gated AS (
    INSERT INTO rota.held_runs ({run}, gate) SELECT {run}, 'new' FROM moved WHERE fate = 'gate'
), ready AS (
    INSERT INTO rota.live_runs ({run}, lane, ready_at)
    SELECT {run}, rota.lane_of(namespace, pool, task, priority), CASE WHEN charged OR outcome = 'snoozed' THEN now()
           ELSE ready_at END
      FROM moved WHERE fate = 'ready'
), departed AS (
    INSERT INTO rota.departures (namespace, run_id, job_id, policies, outcome)
    SELECT namespace, id, job_id, policies, outcome FROM moved WHERE policies IS NOT NULL AND fate <> 'ready'
)
SELECT namespace, id, claim, pool, fate, policies IS NOT NULL AND fate <> 'ready' AS gated,
       cause IN ('node', 'member', 'backfill', 'replay', 'redrive') AND fate IN ('bury', 'cancel', 'skip') AS flows
  FROM moved
