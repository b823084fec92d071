-- Stops workflow runs whose deadline has passed, also those of which failFast stopped all but handlers; those that another
-- transaction holds are left for the next look.
-- Index: workflow_runs_deadline.
-- Locks: the workflow runs, FOR UPDATE SKIP LOCKED.
WITH found AS MATERIALIZED (
    SELECT w.namespace, w.id FROM rota.workflow_runs AS w
     WHERE w.shard = ANY (:shards::smallint[]) AND w.deadline_at <= now() AND w.ended_at IS NULL
       AND (w.stop IS NULL OR w.stop = 'failure')
     LIMIT :limit
       FOR UPDATE SKIP LOCKED
), stopped AS (
    UPDATE rota.workflow_runs AS w SET stop = 'deadline', is_swept = false, revision = w.revision + 1
      FROM found AS f WHERE w.namespace = f.namespace AND w.id = f.id
    RETURNING w.namespace, w.id, w.shard
), noted AS (
    INSERT INTO rota.flow_notes (shard, namespace, flow) SELECT shard, namespace, id FROM stopped
)
SELECT id FROM stopped
