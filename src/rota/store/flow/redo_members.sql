-- Marks failed members of a map that is open and does not fail for good to be made again, and counts them no longer: so the map
-- does not end before them. All of them (`items` null), or those of these items. Gives how many.
-- Index: primary keys.
-- Locks: none of its own: callers have locked the workflow run.
WITH flow AS MATERIALIZED (
    SELECT w.namespace, w.id, w.shard FROM rota.workflow_runs AS w
     WHERE w.namespace = :namespace AND w.id = :flow AND w.ended_at IS NULL AND w.stop IS NULL
), node AS MATERIALIZED (
    SELECT f.* FROM flow AS f
      JOIN rota.workflow_nodes AS n ON n.namespace = f.namespace AND n.flow = f.id AND n.node = :node AND n.state = 'open'
), map AS MATERIALIZED (
    SELECT m.namespace, m.flow, m.node, n.shard FROM node AS n
      JOIN rota.workflow_maps AS m ON m.namespace = n.namespace AND m.flow = n.id AND m.node = :node
     WHERE NOT m.is_failing
), marked AS (
    UPDATE rota.map_failures AS f SET is_redone = true FROM map AS m
     WHERE f.namespace = m.namespace AND f.flow = m.flow AND f.node = m.node AND NOT f.is_redone
       AND (:items::integer[] IS NULL OR f.item = ANY (:items::integer[]))
    RETURNING f.item
), counted AS (
    UPDATE rota.workflow_maps AS m
       SET made = m.made - c.marked, ended = m.ended - c.marked, failed = m.failed - c.marked, is_redone = true
      FROM map AS o, (SELECT count(*) AS marked FROM marked) AS c
     WHERE m.namespace = o.namespace AND m.flow = o.flow AND m.node = o.node AND c.marked > 0
)
SELECT (SELECT count(*) FROM marked) AS marked FROM map
