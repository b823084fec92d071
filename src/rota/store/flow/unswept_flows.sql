-- Workflow runs that were stopped, and maps that fail for good, whose runs were not all told yet. `node` is null for a
-- whole workflow run; `started`: whether runs that have started are stopped, too.
-- Index: workflow_runs_stopping, workflow_maps_failing.
-- Locks: none
(SELECT w.namespace, w.id AS flow, NULL::integer AS node, w.stop, true AS started, w.workflow_id, w.version,
        w.generation
   FROM rota.workflow_runs AS w
  WHERE w.shard = ANY (:shards::smallint[]) AND w.ended_at IS NULL AND w.stop IS NOT NULL AND NOT w.is_swept
  LIMIT :limit)
UNION ALL
(SELECT m.namespace, m.flow, m.node, NULL, m.stops, w.workflow_id, w.version, w.generation
   FROM rota.workflow_maps AS m
   JOIN rota.workflow_runs AS w ON w.namespace = m.namespace AND w.id = m.flow
  WHERE m.shard = ANY (:shards::smallint[]) AND m.is_failing AND NOT m.is_swept
  LIMIT :limit)
