-- The results of some nodes of a workflow run.
-- Index: primary key.
-- Locks: none
SELECT n.node, n.result, n.result_blob FROM rota.workflow_nodes AS n
 WHERE n.namespace = :namespace AND n.flow = :flow AND n.node = ANY (:nodes::integer[])
