-- Gives the nodes of a workflow run that is locked the numbers that their nodes have in another version; those of nodes
-- that are gone are deleted. The order makes all of them go before the first comes back.
-- Index: primary key.
-- Locks: the rows.
WITH taken AS (
    DELETE FROM rota.workflow_nodes AS t WHERE t.namespace = :namespace AND t.flow = :flow RETURNING t.*
)
INSERT INTO rota.workflow_nodes (namespace, flow, node, state, generation, inputs_of, run_id, adds, result, result_blob, reason, culprit, opened_at,
                      ended_at)
SELECT t.namespace, t.flow, i.after, t.state, t.generation, t.inputs_of, t.run_id, t.adds, t.result, t.result_blob, t.reason, t.culprit, t.opened_at, t.ended_at
  FROM taken AS t JOIN unnest(:before::integer[], :after::integer[]) AS i (before, after) ON i.before = t.node
 ORDER BY i.after
