-- Maps of these shards whose members are to be made: there are items left, or members to be made again, and there is room in
-- the window. After a resume a map waits until its node starts once more. Those behind :after first, so that in
-- turn all of them come up, however many there are.
-- Index: workflow_maps_making, primary key.
-- Locks: none
-- Idioms: OFFSET 0.
SELECT m.namespace, m.flow, m.node, m.generation, m.inputs_of, m.is_redone, m.object, m.etag, m.position, m.next_item,
       m.member_window, m.made, m.ended, w.workflow_id, w.version, w.owner AS flow_owner,
       coalesce(w.payload, p.body) AS inputs, w.nominal_at, w.stop, w.timezone, w.root, w.depth, w.pins, w.deadline_at
  FROM rota.workflow_maps AS m
  JOIN rota.workflow_runs AS w ON w.namespace = m.namespace AND w.id = m.flow
  JOIN rota.workflow_nodes AS n ON n.namespace = m.namespace AND n.flow = m.flow AND n.node = m.node AND n.state = 'open'
  LEFT JOIN LATERAL (
       SELECT p.body FROM rota.payloads AS p WHERE p.namespace = w.namespace AND p.id = w.payload_id OFFSET 0
       ) AS p ON true
 WHERE m.shard = ANY (:shards::smallint[]) AND (m.is_redone OR NOT m.is_made) AND NOT m.is_failing
   AND m.made - m.ended < m.member_window * 3 / 4 + 1 AND m.made - m.ended < m.member_window
   AND w.ended_at IS NULL AND (w.stop IS NULL OR w.stop = 'failure') AND NOT w.is_paused
 ORDER BY m.flow <= :after::uuid, m.flow, m.node
 LIMIT :limit
