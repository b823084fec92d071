-- Gives the failed members of a workflow run that is locked the numbers that their nodes have in another version; those of nodes
-- that are gone are deleted. The order makes all of them go before the first comes back.
-- Index: primary key.
-- Locks: the rows.
WITH taken AS (
    DELETE FROM rota.map_failures AS t WHERE t.namespace = :namespace AND t.flow = :flow RETURNING t.*
)
INSERT INTO rota.map_failures (namespace, flow, node, item, run_id, payload, payload_id, reason, is_redone)
SELECT t.namespace, t.flow, i.after, t.item, t.run_id, t.payload, t.payload_id, t.reason, t.is_redone
  FROM taken AS t JOIN unnest(:before::integer[], :after::integer[]) AS i (before, after) ON i.before = t.node
 ORDER BY i.after
