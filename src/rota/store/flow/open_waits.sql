-- Opens waits of workflow runs that are locked.
-- Index: primary key.
-- Locks: none of its own.
INSERT INTO rota.flow_waits (namespace, flow, node, mark, shard, wakes_at, outcome, signal, approvers)
SELECT i.namespace, i.flow, i.node, i.mark, i.shard, to_timestamp(i.wakes_at), i.outcome, i.signal,
       string_to_array(i.approvers, E'\n')
  FROM unnest(:namespaces::text[], :flows::uuid[], :nodes::integer[], :marks::uuid[], :shards::smallint[],
              :wakes_at::float8[], :outcomes::text[], :signals::text[], :approvers::text[])
       AS i (namespace, flow, node, mark, shard, wakes_at, outcome, signal, approvers)
