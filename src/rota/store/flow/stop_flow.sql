-- Stops a workflow run that is open: from now on nothing of it is made. Gives its row as it was.
-- Index: primary key.
-- Locks: the workflow run.
WITH found AS MATERIALIZED (
    SELECT * FROM rota.workflow_runs AS w WHERE w.namespace = :namespace AND w.id = :flow FOR UPDATE
), stopped AS (
    UPDATE rota.workflow_runs AS w
       SET stop = 'cancel', stopped_by = :stopped_by, is_swept = false, revision = w.revision + 1
      FROM found AS f
     WHERE w.namespace = f.namespace AND w.id = f.id AND f.ended_at IS NULL
       AND (f.stop IS NULL OR f.stop = 'failure')
    RETURNING w.namespace, w.id, w.shard
), noted AS (
    INSERT INTO rota.flow_notes (shard, namespace, flow) SELECT shard, namespace, id FROM stopped
)
SELECT * FROM found
