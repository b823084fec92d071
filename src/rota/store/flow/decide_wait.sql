-- Ends a wait for a decision: approved or rejected. Gives nothing if it was decided, or ended, before.
-- Index: primary key.
-- Locks: the wait.
WITH ended AS (
    DELETE FROM rota.flow_waits AS w
     WHERE w.namespace = :namespace AND w.flow = :flow AND w.node = :node AND w.approvers IS NOT NULL
    RETURNING w.*
)
INSERT INTO rota.flow_notes (shard, namespace, flow, node, run_id, outcome, result, reason)
SELECT shard, namespace, flow, node, mark, :outcome, :result, :reason FROM ended
RETURNING flow
