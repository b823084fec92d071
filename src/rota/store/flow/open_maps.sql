-- Opens maps of workflow runs that are locked; one that was there begins anew, without what it had before.
-- Index: primary key.
-- Locks: none of its own.
WITH input AS MATERIALIZED (
    SELECT * FROM unnest(:namespaces::text[], :flows::uuid[], :nodes::integer[], :shards::smallint[], :generations::integer[],
                         :inputs_of::integer[], :items::text[], :objects::text[], :windows::integer[], :tolerated::integer[],
                         :percents::real[], :stops::boolean[])
        AS i (namespace, flow, node, shard, generation, inputs_of, items, object, member_window, tolerated,
              tolerated_percent, stops)
), failures AS (
    DELETE FROM rota.map_failures AS f USING input AS i
     WHERE f.namespace = i.namespace AND f.flow = i.flow AND f.node = i.node
), results AS (
    DELETE FROM rota.map_results AS r USING input AS i
     WHERE r.namespace = i.namespace AND r.flow = i.flow AND r.node = i.node
)
INSERT INTO rota.workflow_maps (namespace, flow, node, shard, generation, inputs_of, items, object, member_window, tolerated,
                                tolerated_percent, stops)
SELECT * FROM input
ON CONFLICT (namespace, flow, node) DO UPDATE
   SET generation = excluded.generation, inputs_of = excluded.inputs_of, items = excluded.items,
       object = excluded.object, etag = NULL, position = 0, next_item = 0, made = 0, ended = 0, failed = 0, stopped = 0, skipped = 0, is_made = false, is_redone = false,
       is_failing = false, is_swept = false, error = NULL, member_window = excluded.member_window,
       tolerated = excluded.tolerated, tolerated_percent = excluded.tolerated_percent, stops = excluded.stops
