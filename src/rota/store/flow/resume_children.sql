-- Notes for workflow runs of nodes that are run again with the same inputs: they run again what failed in them. `carriers`:
-- what each is among runs from then on.
-- Index: workflow_runs_carried.
-- Locks: none
INSERT INTO rota.flow_notes (shard, namespace, flow, node, outcome, run_id)
SELECT w.shard, w.namespace, w.id, i.node, 'resume', i.carrier_id
  FROM unnest(:namespaces::text[], :children::uuid[], :carriers::uuid[], :nodes::integer[]) AS i (namespace, child, carrier_id, node)
  JOIN rota.workflow_runs AS w ON w.namespace = i.namespace AND w.carrier_id = i.child
RETURNING flow
