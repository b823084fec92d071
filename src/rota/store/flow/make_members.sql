-- Makes members of a map, and moves its position: if the position, the generation and the workflow run are as they were
-- read; else nothing. Members are live, or held if they have policies. Gives the pool if some were made.
-- Index: primary keys.
-- Locks: the workflow run FOR SHARE, then the map.
WITH flow AS MATERIALIZED (
    SELECT w.namespace, w.id, w.shard, w.nominal_at FROM rota.workflow_runs AS w
     WHERE w.namespace = :namespace AND w.id = :flow AND w.ended_at IS NULL
       AND (w.stop IS NULL OR (w.stop = 'failure' AND :is_handler::boolean))
       FOR SHARE
), map AS MATERIALIZED (
    SELECT m.namespace, m.flow, m.node, f.shard, f.nominal_at
      FROM flow AS f JOIN rota.workflow_maps AS m ON m.namespace = f.namespace AND m.flow = f.id
     WHERE m.node = :node AND m.position = :position AND m.generation = :generation AND NOT m.is_made AND NOT m.is_failing
       FOR UPDATE OF m
), moved AS (
    UPDATE rota.workflow_maps AS m
       SET position = :next_position, next_item = :next_item, made = m.made + cardinality(:ids::uuid[]),
           skipped = m.skipped + :skipped, is_made = :is_made, etag = coalesce(m.etag, :etag)
      FROM map AS f WHERE m.namespace = f.namespace AND m.flow = f.flow AND m.node = f.node
), made AS MATERIALIZED (
    SELECT m.namespace, i.id, m.flow AS job_id, m.node AS job_version, :owner::text AS owner, :name::text AS name,
           :task::text AS task, :pool::text AS pool, :priority::smallint AS priority,
           string_to_array(:tags::text, ',') AS tags,
           CASE WHEN octet_length(i.payload) <= :inline_bytes::integer THEN i.payload END AS payload,
           CASE WHEN octet_length(i.payload) > :inline_bytes::integer THEN i.id END AS payload_id,
           i.options, 'member'::text AS cause, NULL::uuid AS retry_of, i.root_id, m.shard, m.nominal_at, now() AS run_at,
           0 AS attempt, 0 AS losses, now() AS created_at, rota.expiry_of(i.options, now()) AS expires_at,
           NULL::text AS checkpoint, 0 AS snoozes, :policies::jsonb AS policies, i.payload AS body
      FROM map AS m
     CROSS JOIN unnest(:ids::uuid[], :payloads::text[], :options::text[], :root_ids::uuid[])
           AS i (id, payload, options, root_id)
), large AS (
    INSERT INTO rota.payloads (namespace, id, body) SELECT namespace, id, body FROM made WHERE payload_id IS NOT NULL
), ready AS (
    INSERT INTO rota.live_runs ({run}, lane, ready_at)
    SELECT {run}, rota.lane_of(namespace, pool, task, priority), now() FROM made WHERE policies IS NULL
), gated AS (
    INSERT INTO rota.held_runs ({run}, gate) SELECT {run}, 'new' FROM made WHERE policies IS NOT NULL
), noted AS (
    INSERT INTO rota.flow_notes (shard, namespace, flow) SELECT shard, namespace, flow FROM map WHERE :is_made
)
SELECT flow FROM map
