-- Counts members that ended, of workflow runs that are locked, and deletes the notes of their ends. What they returned is
-- kept in parts; too many failures make a map fail for good. Gives the maps that changed.
-- Index: flow_notes_of_flow, primary keys.
-- Locks: the notes and the maps.
-- Idioms: ctid.
WITH found AS MATERIALIZED (
    SELECT n.ctid AS place FROM rota.flow_notes AS n WHERE n.flow = ANY (:flows::uuid[]) AND n.is_member
     LIMIT :limit
       FOR UPDATE
), taken AS (
    DELETE FROM rota.flow_notes AS n WHERE n.ctid = ANY (ARRAY(SELECT place FROM found))
    RETURNING n.*
), judged AS MATERIALIZED (
    SELECT t.*, t.outcome = 'cancelled' AND w.stop IS NOT NULL AS is_stopped
      FROM taken AS t JOIN rota.workflow_runs AS w ON w.namespace = t.namespace AND w.id = t.flow
), failures AS (
    INSERT INTO rota.map_failures (namespace, flow, node, item, run_id, payload, payload_id, reason)
    SELECT namespace, flow, node, item, run_id, payload, payload_id, reason FROM judged WHERE outcome <> 'success'
    ON CONFLICT (namespace, flow, node, item) DO UPDATE
       SET run_id = excluded.run_id, payload = excluded.payload, payload_id = excluded.payload_id,
           reason = excluded.reason, is_redone = false
), counted AS MATERIALIZED (
    SELECT namespace, flow, node, count(*) AS ended, count(*) FILTER (WHERE is_stopped) AS stopped,
           count(*) FILTER (WHERE outcome <> 'success' AND NOT is_stopped) AS failed
      FROM judged GROUP BY namespace, flow, node
), lines AS MATERIALIZED (
    SELECT namespace, flow, node, item, CASE WHEN result_blob IS NULL
           THEN '{"index":' || item || ',"result":' || replace(replace(result, E'\n', ' '), E'\r', ' ') || '}'
           ELSE '{"index":' || item || ',"stored":' || to_json(result_blob) || '}' END AS line,
           (row_number() OVER (PARTITION BY namespace, flow, node ORDER BY item) - 1) / 1000 AS bucket
      FROM judged WHERE outcome = 'success' AND item IS NOT NULL
), parts AS MATERIALIZED (
    SELECT namespace, flow, node, bucket, string_agg(line, E'\n' ORDER BY item) AS lines
      FROM lines GROUP BY namespace, flow, node, bucket
), kept AS (
    INSERT INTO rota.map_results (namespace, flow, node, part, lines)
    SELECT p.namespace, p.flow, p.node, m.parts + p.bucket, p.lines
      FROM parts AS p JOIN rota.workflow_maps AS m ON m.namespace = p.namespace AND m.flow = p.flow AND m.node = p.node
)
UPDATE rota.workflow_maps AS m
   SET ended = m.ended + c.ended, failed = m.failed + c.failed, stopped = m.stopped + c.stopped,
       is_failing = m.is_failing OR (m.tolerated IS NOT NULL AND m.failed + c.failed > m.tolerated),
       parts = m.parts + (SELECT count(*) FROM parts AS p
                           WHERE p.namespace = m.namespace AND p.flow = m.flow AND p.node = m.node)
  FROM counted AS c
 WHERE m.namespace = c.namespace AND m.flow = c.flow AND m.node = c.node
RETURNING m.flow, m.node
