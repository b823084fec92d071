-- Gives the results of members of a workflow run that is locked the numbers that their nodes have in another version; those of nodes
-- that are gone are deleted. The order makes all of them go before the first comes back.
-- Index: primary key.
-- Locks: the rows.
WITH taken AS (
    DELETE FROM rota.map_results AS t WHERE t.namespace = :namespace AND t.flow = :flow RETURNING t.*
)
INSERT INTO rota.map_results (namespace, flow, node, part, lines)
SELECT t.namespace, t.flow, i.after, t.part, t.lines
  FROM taken AS t JOIN unnest(:before::integer[], :after::integer[]) AS i (before, after) ON i.before = t.node
 ORDER BY i.after
