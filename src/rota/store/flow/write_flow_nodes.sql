-- Writes nodes that were started or have ended. One that added others keeps its result.
-- Index: primary key.
-- Locks: the nodes; callers hold their workflow run.
INSERT INTO rota.workflow_nodes AS n (namespace, flow, node, state, generation, inputs_of, run_id, adds, result,
                                      result_blob, reason, culprit, opened_at, ended_at)
SELECT i.namespace, i.flow, i.node, i.state, i.generation, i.inputs_of, i.run_id, i.adds, i.result,
       i.result_blob, i.reason, i.culprit, CASE WHEN i.state = 'open' THEN clock_timestamp() END, to_timestamp(i.ended_at)
  FROM unnest(:namespaces::text[], :flows::uuid[], :nodes::integer[], :states::text[], :generations::integer[],
              :inputs_of::integer[], :run_ids::uuid[], :adds::boolean[], :results::text[], :result_blobs::text[],
              :reasons::text[], :culprits::text[], :ended_at::float8[])
       AS i (namespace, flow, node, state, generation, inputs_of, run_id, adds, result, result_blob, reason, culprit, ended_at)
ON CONFLICT (namespace, flow, node) DO UPDATE
   SET state = excluded.state, generation = excluded.generation, inputs_of = excluded.inputs_of,
       run_id = coalesce(excluded.run_id, n.run_id),
       opened_at = CASE WHEN n.state = 'open' THEN n.opened_at ELSE coalesce(excluded.opened_at, n.opened_at) END,
       adds = excluded.adds,
       result = CASE WHEN n.adds THEN n.result ELSE excluded.result END,
       result_blob = CASE WHEN n.adds THEN n.result_blob ELSE excluded.result_blob END, reason = excluded.reason,
       culprit = excluded.culprit, ended_at = excluded.ended_at
