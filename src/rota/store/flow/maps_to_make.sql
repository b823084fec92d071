-- Maps of these shards whose members are to be made: there are items left, and room in the window.
-- Index: workflow_maps_making, primary key.
-- Locks: none
SELECT m.*, w.workflow_id, w.version, w.owner AS flow_owner, w.payload AS inputs, w.nominal_at, w.stop
  FROM rota.workflow_maps AS m
  JOIN rota.workflow_runs AS w ON w.namespace = m.namespace AND w.id = m.flow
 WHERE m.shard = ANY (:shards::smallint[]) AND NOT m.is_made AND NOT m.is_failing
   AND m.made - m.ended < m.member_window * 3 / 4 + 1 AND m.made - m.ended < m.member_window
   AND w.ended_at IS NULL AND (w.stop IS NULL OR w.stop = 'failure')
 LIMIT :limit
