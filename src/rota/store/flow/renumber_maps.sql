-- Gives the maps of a workflow run that is locked the numbers that their nodes have in another version; those of nodes
-- that are gone are deleted. The order makes all of them go before the first comes back.
-- Index: primary key.
-- Locks: the rows.
WITH taken AS (
    DELETE FROM rota.workflow_maps AS t WHERE t.namespace = :namespace AND t.flow = :flow RETURNING t.*
)
INSERT INTO rota.workflow_maps (namespace, flow, node, shard, generation, inputs_of, is_redone, items, object, etag, position, next_item, member_window, tolerated,
                      tolerated_percent, stops, made, ended, failed, stopped, skipped, is_made, is_failing, is_swept, error, parts)
SELECT t.namespace, t.flow, i.after, t.shard, t.generation, t.inputs_of, t.is_redone, t.items, t.object, t.etag, t.position, t.next_item, t.member_window, t.tolerated, t.tolerated_percent, t.stops, t.made, t.ended, t.failed, t.stopped, t.skipped, t.is_made, t.is_failing, t.is_swept, t.error, t.parts
  FROM taken AS t JOIN unnest(:before::integer[], :after::integer[]) AS i (before, after) ON i.before = t.node
 ORDER BY i.after
