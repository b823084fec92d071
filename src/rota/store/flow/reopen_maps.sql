-- Opens maps of workflow runs that are locked once more: those count that succeeded, and those that failed and are not to
-- be made again. Which others were counted before depends on how far an earlier resume came. What of the source was not
-- read is read.
-- Index: primary keys.
-- Locks: none of its own.
WITH input AS MATERIALIZED (
    SELECT * FROM unnest(:namespaces::text[], :flows::uuid[], :nodes::integer[], :generations::integer[])
        AS i (namespace, flow, node, generation)
), counted AS MATERIALIZED (
    SELECT i.*, count(f.item) FILTER (WHERE f.is_redone) AS redone, count(f.item) FILTER (WHERE NOT f.is_redone) AS failed
      FROM input AS i
      LEFT JOIN rota.map_failures AS f ON f.namespace = i.namespace AND f.flow = i.flow AND f.node = i.node
     GROUP BY i.namespace, i.flow, i.node, i.generation
)
UPDATE rota.workflow_maps AS m
   SET generation = c.generation, made = m.ended - m.failed - m.stopped + c.failed,
       ended = m.ended - m.failed - m.stopped + c.failed, failed = c.failed, stopped = 0,
       is_redone = c.redone > 0, is_failing = false, is_swept = false, error = NULL
  FROM counted AS c
 WHERE m.namespace = c.namespace AND m.flow = c.flow AND m.node = c.node
RETURNING m.flow
