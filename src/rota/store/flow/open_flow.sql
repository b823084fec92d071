-- Opens a run of a workflow outside its schedule, with a note to the conductor. Gives nothing if the workflow was deleted.
-- Index: primary key.
-- Locks: the workflow's row FOR SHARE: a change or delete that is under way is waited for and then seen.
WITH workflow AS MATERIALIZED (
    SELECT * FROM rota.workflows AS w
     WHERE w.namespace = :namespace AND w.id = :workflow_id AND w.state <> 'deleted' AND w.version = :version
       FOR SHARE
), opened AS (
    INSERT INTO rota.workflow_runs (namespace, id, job_id, job_version, owner, name, task, pool, priority, tags, payload,
                                    options, cause, shard, nominal_at, run_at, attempt, losses, created_at, snoozes,
                                    carrier_id, workflow_id, version, deadline_at)
    SELECT w.namespace, :flow::uuid, w.job_id, w.revision, w.owner, w.name, 'workflow', 'default', 0, '{}', :inputs, '{}',
           'manual', :shard::smallint, now(), now(), 0, 0, now(), 0, :flow::uuid, w.id, w.version,
           now() + :deadline_seconds::float8 * interval '1 second'
      FROM workflow AS w
    RETURNING namespace, id, shard
), noted AS (
    INSERT INTO rota.flow_notes (shard, namespace, flow) SELECT shard, namespace, id FROM opened
)
SELECT id FROM opened
