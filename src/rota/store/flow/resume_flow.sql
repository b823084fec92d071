-- Begins the next generation of a workflow run that is locked: these nodes wait again, and their dead letters are
-- taken back. Of `maps` the members that failed are made again: all (`items` null), or those of these items. One that had
-- ended gets a new carrier, while its old one stays in history, and is paused if its workflow or its parent is now.
-- Index: primary keys.
-- Locks: the nodes, the failures of maps, the dead letters.
-- Idioms: by_id.
WITH resumed AS (
    UPDATE rota.workflow_runs AS w
       SET generation = w.generation + 1, revision = w.revision + 1, stop = NULL, stopped_by = NULL, is_swept = false, outcome = NULL,
           ended_at = NULL, culprit = NULL, result = NULL, version = :version,
           job_version = coalesce(:node::integer, w.job_version),
           retry_of = CASE WHEN w.ended_at IS NULL THEN w.retry_of ELSE w.carrier_id END,
           carrier_id = CASE WHEN w.ended_at IS NULL THEN w.carrier_id ELSE :carrier_id::uuid END,
           is_paused = CASE WHEN w.ended_at IS NULL THEN w.is_paused ELSE EXISTS (
               SELECT FROM rota.workflows AS o
                WHERE o.namespace = w.namespace AND o.id = w.workflow_id AND o.state = 'paused') OR EXISTS (
               SELECT FROM rota.workflow_runs AS p
                WHERE p.namespace = w.namespace AND p.id = w.job_id AND w.cause IN ('node', 'member') AND p.is_paused) END,
           deadline_at = least(now() + :deadline_seconds::float8 * interval '1 second', :deadline_at::timestamptz)
     WHERE w.namespace = :namespace AND w.id = :flow
    RETURNING w.namespace, w.id, w.shard, w.generation
), reset AS (
    UPDATE rota.workflow_nodes AS n
       SET state = 'waiting', generation = r.generation, reason = NULL, culprit = NULL, result = NULL, result_blob = NULL,
           opened_at = NULL, ended_at = NULL, adds = false,
           inputs_of = CASE WHEN n.node = ANY (:same_inputs::integer[]) THEN n.inputs_of ELSE r.generation END
      FROM resumed AS r
     WHERE n.namespace = r.namespace AND n.flow = r.id AND n.node = ANY (:nodes::integer[])
    RETURNING n.namespace, n.run_id
), raised AS (
    DELETE FROM rota.dead_letters AS d
     WHERE rota.by_id(d.namespace) = :namespace AND d.run_id = ANY (ARRAY(SELECT run_id FROM reset))
), redone AS (
    UPDATE rota.map_failures AS f SET is_redone = true
     WHERE f.namespace = :namespace AND f.flow = :flow AND f.node = ANY (:maps::integer[])
       AND (:items::integer[] IS NULL OR f.item = ANY (:items::integer[]))
)
INSERT INTO rota.flow_notes (shard, namespace, flow) SELECT shard, namespace, id FROM resumed
RETURNING flow
