-- Opens workflow runs of nodes: sub-workflows, and what a node added. Each is the run of its node, and its end leaves a note
-- for it like any run's. Callers hold the workflow runs of these nodes, and write the nodes in the same transaction: so none
-- is opened twice. Its deadline is not after theirs, and it is paused if they are.
-- Index: none
-- Locks: none
WITH opened AS (
    INSERT INTO rota.workflow_runs (namespace, id, job_id, job_version, owner, name, task, pool, priority, tags, payload,
                                    options, cause, root_id, shard, nominal_at, run_at, attempt, losses, created_at, snoozes,
                                    carrier_id, workflow_id, version, timezone, root, depth, pins, is_paused,
                                    deadline_at)
    SELECT i.namespace, i.id, i.flow, i.node, i.owner, i.name, 'workflow', 'default', 0, '{}', i.payload, i.options, i.cause,
           i.root_id, i.shard, i.nominal_at, now(), 0, 0, now(), 0, i.id, i.workflow_id, i.version, i.timezone, i.root,
           i.depth, i.pins, i.is_paused, least(now() + i.deadline_seconds * interval '1 second', i.deadline_at)
      FROM unnest(:namespaces::text[], :ids::uuid[], :flows::uuid[], :nodes::integer[], :owners::text[], :names::text[],
                  :payloads::text[], :options::text[], :causes::text[], :root_ids::uuid[], :shards::smallint[],
                  :nominal_at::timestamptz[], :workflow_ids::uuid[], :versions::text[], :timezones::text[], :roots::uuid[],
                  :depths::smallint[], :pins::text[], :is_paused::boolean[], :deadline_seconds::float8[], :deadline_at::timestamptz[])
           AS i (namespace, id, flow, node, owner, name, payload, options, cause, root_id, shard, nominal_at, workflow_id,
                 version, timezone, root, depth, pins, is_paused, deadline_seconds, deadline_at)
    RETURNING namespace, id, shard
)
INSERT INTO rota.flow_notes (shard, namespace, flow) SELECT shard, namespace, id FROM opened
RETURNING flow
