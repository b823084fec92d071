-- Makes members of a map that is open, and moves its position: if the position, the generation and the workflow run are as
-- they were read; else nothing. Members are live, or held if they have policies, or workflow runs. Items of which none can be made
-- count as failed. Gives whether something was done.
-- Index: primary keys.
-- Locks: none of its own: callers have locked the workflow run.
WITH flow AS MATERIALIZED (
    SELECT w.namespace, w.id, w.shard, w.nominal_at, w.timezone, w.root, w.depth, w.pins, w.deadline_at
      FROM rota.workflow_runs AS w
     WHERE w.namespace = :namespace AND w.id = :flow AND w.ended_at IS NULL AND NOT w.is_paused
       AND (w.stop IS NULL OR (w.stop = 'failure' AND :is_handler::boolean))
), map AS MATERIALIZED (
    SELECT m.namespace, m.flow, m.node, f.shard, f.nominal_at, f.timezone, f.root, f.depth, f.pins, f.deadline_at
      FROM flow AS f JOIN rota.workflow_maps AS m ON m.namespace = f.namespace AND m.flow = f.id
      JOIN rota.workflow_nodes AS n ON n.namespace = m.namespace AND n.flow = m.flow AND n.node = m.node
     WHERE n.state = 'open' AND m.node = :node AND m.position = :position AND m.generation = :generation AND NOT m.is_made AND NOT m.is_failing
), moved AS (
    UPDATE rota.workflow_maps AS m
       SET position = :next_position, next_item = :next_item, is_made = :is_made, skipped = m.skipped + :skipped,
           made = m.made + cardinality(:ids::uuid[]) + cardinality(:bad_items::integer[]),
           ended = m.ended + cardinality(:bad_items::integer[]), failed = m.failed + cardinality(:bad_items::integer[]),
           is_failing = m.tolerated IS NOT NULL AND m.failed + cardinality(:bad_items::integer[]) > m.tolerated,
           etag = coalesce(m.etag, :etag)
      FROM map AS f WHERE m.namespace = f.namespace AND m.flow = f.flow AND m.node = f.node
), failures AS (
    INSERT INTO rota.map_failures (namespace, flow, node, item, reason)
    SELECT m.namespace, m.flow, m.node, b.item, b.reason
      FROM map AS m CROSS JOIN unnest(:bad_items::integer[], :reasons::text[]) AS b (item, reason)
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
    INSERT INTO rota.payloads (namespace, id, body)
    SELECT namespace, id, body FROM made WHERE payload_id IS NOT NULL AND :child_id::uuid IS NULL
), ready AS (
    INSERT INTO rota.live_runs ({run}, lane, ready_at)
    SELECT {run}, rota.lane_of(namespace, pool, task, priority), now() FROM made
     WHERE policies IS NULL AND :child_id::uuid IS NULL
), gated AS (
    INSERT INTO rota.held_runs ({run}, gate)
    SELECT {run}, 'new' FROM made WHERE policies IS NOT NULL AND :child_id::uuid IS NULL
), opened AS (
    INSERT INTO rota.workflow_runs ({run}, carrier_id, workflow_id, version, timezone, root, depth, pins, deadline_at)
    SELECT n.namespace, n.id, n.job_id, n.job_version, n.owner, n.name, n.task, n.pool, n.priority, n.tags, n.body, NULL,
           n.options, n.cause, n.retry_of, n.root_id, n.shard, n.nominal_at, n.run_at, n.attempt, n.losses, n.created_at,
           NULL, n.checkpoint, n.snoozes, NULL, n.id, :child_id::uuid, :child_version, m.timezone, m.root, m.depth + 1, m.pins,
           least(now() + :child_seconds::float8 * interval '1 second', m.deadline_at)
      FROM made AS n CROSS JOIN map AS m
     WHERE :child_id::uuid IS NOT NULL
    RETURNING shard, namespace, id
), noted AS (
    INSERT INTO rota.flow_notes (shard, namespace, flow)
    SELECT shard, namespace, id FROM opened
    UNION ALL
    SELECT shard, namespace, flow FROM map WHERE :is_made OR cardinality(:bad_items::integer[]) > 0
)
SELECT flow FROM map
