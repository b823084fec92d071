-- Begins the next generation of a workflow run that is locked: these nodes wait again. One that had ended gets a new
-- carrier; its old one stays in history.
-- Index: primary keys.
-- Locks: the nodes.
WITH resumed AS (
    UPDATE rota.workflow_runs AS w
       SET generation = w.generation + 1, revision = w.revision + 1, stop = NULL, stopped_by = NULL, is_swept = false, outcome = NULL,
           ended_at = NULL, culprit = NULL, version = :version,
           retry_of = CASE WHEN w.ended_at IS NULL THEN w.retry_of ELSE w.carrier_id END,
           carrier_id = CASE WHEN w.ended_at IS NULL THEN w.carrier_id ELSE :carrier_id::uuid END,
           deadline_at = now() + :deadline_seconds::float8 * interval '1 second'
     WHERE w.namespace = :namespace AND w.id = :flow
    RETURNING w.namespace, w.id, w.shard, w.generation
), reset AS (
    UPDATE rota.workflow_nodes AS n
       SET state = 'waiting', generation = r.generation, reason = NULL, culprit = NULL, result = NULL, result_blob = NULL,
           opened_at = NULL, ended_at = NULL,
           inputs_of = CASE WHEN n.node = ANY (:same_inputs::integer[]) THEN n.inputs_of ELSE r.generation END
      FROM resumed AS r
     WHERE n.namespace = r.namespace AND n.flow = r.id AND n.node = ANY (:nodes::integer[])
)
INSERT INTO rota.flow_notes (shard, namespace, flow) SELECT shard, namespace, id FROM resumed
RETURNING flow
