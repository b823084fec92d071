-- The maps of workflow runs.
-- Index: primary key.
-- Locks: none
SELECT m.flow, m.node, m.made, m.ended, m.failed, m.stopped, m.skipped, m.is_made, m.is_redone, m.is_failing,
       m.tolerated_percent, m.error, m.inputs_of
  FROM rota.workflow_maps AS m
 WHERE m.namespace = ANY (:namespaces::text[]) AND m.flow = ANY (:flows::uuid[])
