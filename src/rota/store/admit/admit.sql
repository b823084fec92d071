-- Admits runs that passed their gates: held -> live. The unique index live_runs_in_order refuses a second run of an
-- ordering key. Runs of workflows are opened instead: held -> workflow_runs, at the workflow's current version, with a note
-- to the conductor; one whose workflow is gone is cancelled.
-- Index: primary keys, workflows_of_job.
-- Locks: none of its own: callers have locked the runs.
-- Idioms: one-element array, by_id.
WITH taken AS (
    DELETE FROM rota.held_runs AS h USING unnest(:namespaces::text[], :run_ids::uuid[]) AS i (namespace, id)
     WHERE rota.by_id(h.namespace) = ANY (ARRAY[i.namespace]) AND h.id = ANY (ARRAY[i.id])
    RETURNING {h.run}
), ready AS (
    INSERT INTO rota.live_runs ({run}, lane, ready_at)
    SELECT {run}, rota.lane_of(namespace, pool, task, priority), greatest(run_at, now()) FROM taken
     WHERE (policies -> 'opens') IS NULL
), opened AS (
    INSERT INTO rota.workflow_runs ({run}, carrier_id, workflow_id, version, timezone, root, deadline_at)
    SELECT t.namespace, t.id, t.job_id, t.job_version, t.owner, t.name, t.task, t.pool, t.priority, t.tags, t.payload,
           t.payload_id, t.options, t.cause, t.retry_of, t.root_id, t.shard, t.nominal_at, t.run_at, t.attempt, t.losses,
           t.created_at, NULL, t.checkpoint, t.snoozes, t.policies, t.id, w.id, w.version,
           w.timezone, t.id,
           now() + w.deadline_seconds * interval '1 second'
      FROM taken AS t JOIN rota.workflows AS w ON w.namespace = t.namespace AND w.job_id = t.job_id
     WHERE (t.policies -> 'opens') IS NOT NULL AND w.state <> 'deleted'
    RETURNING namespace, id, shard
), noted AS (
    INSERT INTO rota.flow_notes (shard, namespace, flow) SELECT shard, namespace, id FROM opened
), gone AS (
    INSERT INTO rota.finished_runs ({run}, status, finished_at, reason)
    SELECT {run}, 'cancelled', now(), 'its workflow was deleted' FROM taken
     WHERE (policies -> 'opens') IS NOT NULL AND id NOT IN (SELECT id FROM opened)
)
SELECT DISTINCT pool, (policies -> 'opens') IS NOT NULL AS opens FROM taken
