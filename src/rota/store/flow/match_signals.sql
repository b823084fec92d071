-- Ends waits of workflow runs that are locked with the signals they wait for: the oldest signal of a name goes to the wait
-- that was opened first.
-- Index: flow_signals_of_flow, primary key.
-- Locks: the waits FOR UPDATE, so that no other end comes between; the signals.
WITH waits AS MATERIALIZED (
    SELECT w.namespace, w.flow, w.node, w.mark, w.shard, w.signal, w.opened_at FROM rota.flow_waits AS w
     WHERE w.namespace = ANY (:namespaces::text[]) AND w.flow = ANY (:flows::uuid[]) AND w.signal IS NOT NULL
     ORDER BY w.flow, w.node
       FOR UPDATE
), placed AS MATERIALIZED (
    SELECT *, row_number() OVER (PARTITION BY flow, signal ORDER BY opened_at, node) AS place FROM waits
), signals AS MATERIALIZED (
    SELECT s.id, s.namespace, s.flow, s.name, s.payload,
           row_number() OVER (PARTITION BY s.namespace, s.flow, s.name ORDER BY s.id) AS place
      FROM rota.flow_signals AS s
     WHERE (s.namespace, s.flow) IN (SELECT namespace, flow FROM waits)
), pairs AS MATERIALIZED (
    SELECT p.namespace, p.flow, p.node, p.mark, p.shard, s.id, s.payload
      FROM placed AS p JOIN signals AS s
        ON s.namespace = p.namespace AND s.flow = p.flow AND s.name = p.signal AND s.place = p.place
), ended AS (
    DELETE FROM rota.flow_waits AS w USING pairs AS p
     WHERE w.namespace = p.namespace AND w.flow = p.flow AND w.node = p.node
), taken AS (
    DELETE FROM rota.flow_signals AS s WHERE s.id IN (SELECT id FROM pairs)
)
INSERT INTO rota.flow_notes (shard, namespace, flow, node, run_id, outcome, result)
SELECT shard, namespace, flow, node, mark, 'success', payload FROM pairs
RETURNING flow
