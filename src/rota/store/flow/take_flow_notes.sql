-- Takes notes of workflow runs that are locked, oldest first, and deletes them: the reader acts in the same transaction.
-- Those of members are folded (fold_members). `is_signalled`: whether there are signals that no wait took. That is asked
-- here, when the workflow run is locked: the note of a signal is never taken without it.
-- Index: flow_notes_of_flow, flow_signals_of_flow.
-- Locks: the notes.
-- Idioms: ctid.
WITH found AS MATERIALIZED (
    SELECT n.ctid AS place FROM rota.flow_notes AS n WHERE n.flow = ANY (:flows::uuid[]) AND NOT n.is_member
     ORDER BY n.noted_at LIMIT :limit
       FOR UPDATE
)
DELETE FROM rota.flow_notes AS n WHERE n.ctid = ANY (ARRAY(SELECT place FROM found))
RETURNING n.flow, n.node, n.run_id, n.outcome, n.result, n.result_blob, n.reason,
          extract(epoch FROM n.noted_at)::float8 AS noted_at,
          EXISTS (SELECT FROM rota.flow_signals AS s WHERE s.namespace = n.namespace AND s.flow = n.flow) AS is_signalled
