-- The nodes of a workflow run that wait no more, each with the state of its run, or its wait, if
-- that has not ended.
-- Index: primary keys, workflow_runs_carried.
-- Locks: none
-- Idioms: OFFSET 0.
SELECT n.*, r.status AS run_status, w.mark, w.signal, w.approvers, w.wakes_at, c.id AS child
  FROM rota.workflow_nodes AS n
  LEFT JOIN LATERAL (
       SELECT r.status FROM rota.open_runs AS r
        WHERE n.state = 'open' AND r.namespace = n.namespace AND r.id = n.run_id OFFSET 0
       ) AS r ON true
  LEFT JOIN rota.flow_waits AS w
    ON n.state = 'open' AND w.namespace = n.namespace AND w.flow = n.flow AND w.node = n.node
  LEFT JOIN rota.workflow_runs AS c ON c.namespace = n.namespace AND c.carrier_id = n.run_id
 WHERE n.namespace = :namespace AND n.flow = :flow
