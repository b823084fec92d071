-- Counts members that ended, of workflow runs that are locked, and deletes the notes of their ends. Too many failures
-- make a map fail for good. Gives the maps that changed.
-- Index: flow_notes_of_flow, primary keys.
-- Locks: the notes and the maps.
-- Idioms: ctid.
WITH found AS MATERIALIZED (
    SELECT n.ctid AS place FROM rota.flow_notes AS n WHERE n.flow = ANY (:flows::uuid[]) AND n.is_member
     LIMIT :limit
       FOR UPDATE
), taken AS (
    DELETE FROM rota.flow_notes AS n WHERE n.ctid = ANY (ARRAY(SELECT place FROM found))
    RETURNING n.namespace, n.flow, n.node, n.outcome, n.item, n.run_id
), judged AS MATERIALIZED (
    SELECT t.*, t.outcome = 'cancelled' AND w.stop IS NOT NULL AS is_stopped
      FROM taken AS t JOIN rota.workflow_runs AS w ON w.namespace = t.namespace AND w.id = t.flow
), failures AS (
    INSERT INTO rota.map_failures (namespace, flow, node, item, run_id)
    SELECT namespace, flow, node, item, run_id FROM judged WHERE outcome <> 'success'
    ON CONFLICT (namespace, flow, node, item) DO UPDATE SET run_id = excluded.run_id
), counted AS MATERIALIZED (
    SELECT namespace, flow, node, count(*) AS ended, count(*) FILTER (WHERE is_stopped) AS stopped,
           count(*) FILTER (WHERE outcome <> 'success' AND NOT is_stopped) AS failed
      FROM judged GROUP BY namespace, flow, node
)
UPDATE rota.workflow_maps AS m
   SET ended = m.ended + c.ended, failed = m.failed + c.failed, stopped = m.stopped + c.stopped,
       is_failing = m.is_failing OR (m.tolerated IS NOT NULL AND m.failed + c.failed > m.tolerated)
  FROM counted AS c
 WHERE m.namespace = c.namespace AND m.flow = c.flow AND m.node = c.node
RETURNING m.flow, m.node, m.made, m.ended, m.failed, m.stopped, m.skipped, m.is_made, m.is_failing, m.tolerated_percent,
          m.stops
