-- Opens maps of workflow runs that are locked.
-- Index: primary key.
-- Locks: none of its own.
INSERT INTO rota.workflow_maps (namespace, flow, node, shard, generation, items, object, member_window, tolerated,
                                tolerated_percent, stops)
SELECT * FROM unnest(:namespaces::text[], :flows::uuid[], :nodes::integer[], :shards::smallint[], :generations::integer[],
                     :items::text[], :objects::text[], :windows::integer[], :tolerated::integer[],
                     :percents::real[], :stops::boolean[])
ON CONFLICT (namespace, flow, node) DO UPDATE
   SET generation = excluded.generation, items = excluded.items, object = excluded.object, etag = NULL, position = 0,
       next_item = 0, made = 0, ended = 0, failed = 0, stopped = 0, skipped = 0, is_made = false, is_failing = false, is_swept = false,
       member_window = excluded.member_window, tolerated = excluded.tolerated,
       tolerated_percent = excluded.tolerated_percent, stops = excluded.stops
