-- Ends waits of a workflow run that was stopped; of these nodes (null: all), if it is at this generation.
-- Index: primary key.
-- Locks: the waits.
WITH ended AS (
    DELETE FROM rota.flow_waits AS w
     WHERE w.namespace = :namespace AND w.flow = :flow AND (:nodes::integer[] IS NULL OR w.node = ANY (:nodes::integer[]))
       AND EXISTS (SELECT FROM rota.workflow_runs AS f
                    WHERE f.namespace = w.namespace AND f.id = w.flow AND f.generation = :generation)
    RETURNING w.*
)
INSERT INTO rota.flow_notes (shard, namespace, flow, node, run_id, outcome, reason)
SELECT shard, namespace, flow, node, mark, 'cancelled', :reason FROM ended
RETURNING flow
