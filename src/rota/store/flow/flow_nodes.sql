-- The nodes of workflow runs that wait no more, without their results.
-- Index: primary key.
-- Locks: none
SELECT n.flow, n.node, n.state, n.generation, n.inputs_of, n.run_id, n.adds, n.reason, n.culprit,
       extract(epoch FROM n.ended_at)::float8 AS ended_at
  FROM rota.workflow_nodes AS n
 WHERE n.namespace = ANY (:namespaces::text[]) AND n.flow = ANY (:flows::uuid[])
