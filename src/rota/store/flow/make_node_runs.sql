-- Makes the runs of nodes that start: live, or held if they have policies. Callers hold their workflow runs, and write the
-- nodes in the same transaction: so none is made twice. Gives the pools that have new work, and whether some go to gates.
-- Index: none
-- Locks: none
WITH made AS MATERIALIZED (
    SELECT i.namespace, i.id, i.flow AS job_id, i.node AS job_version, i.owner, i.name, i.task, i.pool, i.priority,
           string_to_array(i.tags, ',') AS tags,
           CASE WHEN octet_length(i.payload) <= :inline_bytes::integer THEN i.payload END AS payload,
           CASE WHEN octet_length(i.payload) > :inline_bytes::integer THEN i.id END AS payload_id,
           i.options, 'node'::text AS cause, NULL::uuid AS retry_of, i.root_id, i.shard, i.nominal_at, now() AS run_at,
           0 AS attempt, 0 AS losses, now() AS created_at, rota.expiry_of(i.options, now()) AS expires_at,
           NULL::text AS checkpoint, 0 AS snoozes, i.policies::jsonb AS policies, i.payload AS body
      FROM unnest(:namespaces::text[], :ids::uuid[], :flows::uuid[], :nodes::integer[], :owners::text[], :names::text[],
                  :tasks::text[], :pools::text[], :priorities::smallint[], :tags::text[], :payloads::text[],
                  :options::text[], :root_ids::uuid[], :shards::smallint[], :nominal_at::timestamptz[], :policies::text[])
           AS i (namespace, id, flow, node, owner, name, task, pool, priority, tags, payload, options, root_id, shard,
                 nominal_at, policies)
), large AS (
    INSERT INTO rota.payloads (namespace, id, body) SELECT namespace, id, body FROM made WHERE payload_id IS NOT NULL
), ready AS (
    INSERT INTO rota.live_runs ({run}, lane, ready_at)
    SELECT {run}, rota.lane_of(namespace, pool, task, priority), now() FROM made WHERE policies IS NULL
), gated AS (
    INSERT INTO rota.held_runs ({run}, gate) SELECT {run}, 'new' FROM made WHERE policies IS NOT NULL
)
SELECT pool, bool_or(policies IS NOT NULL) AS gated FROM made GROUP BY pool
