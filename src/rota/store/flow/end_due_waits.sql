-- Ends waits whose time has come; those that another transaction holds are left for the next look.
-- Index: flow_waits_due.
-- Locks: the waits, FOR UPDATE SKIP LOCKED.
WITH due AS MATERIALIZED (
    SELECT w.namespace, w.flow, w.node FROM rota.flow_waits AS w
     WHERE w.shard = ANY (:shards::smallint[]) AND w.wakes_at <= clock_timestamp()
     ORDER BY w.wakes_at LIMIT :limit
       FOR UPDATE SKIP LOCKED
), ended AS (
    DELETE FROM rota.flow_waits AS w USING due AS d
     WHERE w.namespace = d.namespace AND w.flow = d.flow AND w.node = d.node
    RETURNING w.*
)
INSERT INTO rota.flow_notes (shard, namespace, flow, node, run_id, outcome, reason)
SELECT shard, namespace, flow, node, mark, outcome,
       CASE WHEN signal IS NOT NULL THEN 'no signal ' || signal || ' came in time'
            WHEN approvers IS NOT NULL THEN 'it was not decided in time' END
  FROM ended
RETURNING flow
