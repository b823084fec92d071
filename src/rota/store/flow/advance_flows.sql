-- Writes what changed in workflow runs that are locked. One that is over goes to history with its outcome, and forgets the
-- signals that no wait took; one that is not done in this transaction gets a note to be looked at again.
-- Index: primary key, flow_signals_of_flow.
-- Locks: none of its own.
-- Idioms: one-element array.
WITH input AS MATERIALIZED (
    SELECT * FROM unnest(:namespaces::text[], :flows::uuid[], :stops::text[], :outcomes::text[], :culprits::text[],
                         :results::text[], :pins::text[], :again::boolean[])
        AS i (namespace, id, stop, outcome, culprit, result, pins, again)
), advanced AS (
    UPDATE rota.workflow_runs AS w
       SET revision = w.revision + 1, stop = i.stop, outcome = i.outcome, culprit = i.culprit, result = i.result,
           pins = coalesce(i.pins, w.pins), ended_at = CASE WHEN i.outcome IS NOT NULL THEN clock_timestamp() END
      FROM input AS i
     WHERE w.namespace = ANY (ARRAY[i.namespace]) AND w.id = ANY (ARRAY[i.id])
    RETURNING {w.run}, w.carrier_id, w.stop, w.outcome, w.culprit, w.result, w.opened_at, w.ended_at, i.again
), noted AS (
    INSERT INTO rota.flow_notes (shard, namespace, flow) SELECT shard, namespace, id FROM advanced WHERE again
), forgotten AS (
    DELETE FROM rota.flow_signals AS s USING advanced AS a
     WHERE a.outcome IS NOT NULL AND s.namespace = a.namespace AND s.flow = a.id
), departed AS (
    INSERT INTO rota.departures (namespace, run_id, job_id, policies, outcome)
    SELECT namespace, carrier_id, job_id, policies, outcome FROM advanced
     WHERE outcome IS NOT NULL AND policies IS NOT NULL
)
INSERT INTO rota.finished_runs ({run}, status, started_at, finished_at, cancel_requested, error, reason, result)
SELECT namespace, carrier_id, job_id, job_version, owner, name, task, pool, priority, tags, payload, payload_id, options,
       cause, retry_of, root_id, shard, nominal_at, run_at, attempt, losses, created_at, expires_at, checkpoint, snoozes,
       policies, outcome, opened_at, ended_at, coalesce(stop = 'cancel', false), CASE WHEN outcome = 'failed' THEN coalesce(
           'node ' || culprit || ' failed', 'the deadline passed') END,
       CASE WHEN outcome = 'cancelled' THEN 'cancelled on request' END, result
  FROM advanced WHERE outcome IS NOT NULL
RETURNING namespace, id
