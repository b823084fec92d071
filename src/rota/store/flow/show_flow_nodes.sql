-- The nodes of a workflow run that wait no more, each with the state of its run if that has not ended.
-- Index: primary keys.
-- Locks: none
SELECT n.*, r.status AS run_status
  FROM rota.workflow_nodes AS n
  LEFT JOIN LATERAL (
       SELECT r.status FROM rota.open_runs AS r
        WHERE n.state = 'open' AND r.namespace = n.namespace AND r.id = n.run_id OFFSET 0
       ) AS r ON true
 WHERE n.namespace = :namespace AND n.flow = :flow
