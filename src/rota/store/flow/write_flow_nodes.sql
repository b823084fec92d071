-- Writes nodes that were started or have ended. A result stays when none is given.
-- Index: primary key.
-- Locks: the nodes; callers hold their workflow run.
INSERT INTO rota.workflow_nodes AS n (namespace, flow, node, state, generation, inputs_of, run_id, result, result_blob,
                                      reason, culprit, opened_at, ended_at)
SELECT i.namespace, i.flow, i.node, i.state, i.generation, i.inputs_of, i.run_id, i.result, i.result_blob, i.reason, i.culprit,
       CASE WHEN i.run_id IS NOT NULL THEN clock_timestamp() END, to_timestamp(i.ended_at)
  FROM unnest(:namespaces::text[], :flows::uuid[], :nodes::integer[], :states::text[], :generations::integer[],
              :inputs_of::integer[], :run_ids::uuid[], :results::text[], :result_blobs::text[], :reasons::text[], :culprits::text[],
              :ended_at::float8[])
       AS i (namespace, flow, node, state, generation, inputs_of, run_id, result, result_blob, reason, culprit, ended_at)
ON CONFLICT (namespace, flow, node) DO UPDATE
   SET state = excluded.state, generation = excluded.generation, inputs_of = excluded.inputs_of,
       run_id = coalesce(excluded.run_id, n.run_id), opened_at = coalesce(excluded.opened_at, n.opened_at),
       result = excluded.result, result_blob = excluded.result_blob, reason = excluded.reason,
       culprit = excluded.culprit, ended_at = excluded.ended_at
