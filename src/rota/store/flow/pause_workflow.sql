-- Pauses a workflow, or lets it go on: in its runs that are open, and all that belongs to them, no node starts meanwhile.
-- Gives the workflow if it is not deleted, and how many workflow runs it was said to: one that is opened while this waits
-- for its parent is not seen, so callers repeat it until there are none.
-- Index: primary key, workflow_runs_of_workflow, workflow_runs_of_root.
-- Locks: the workflow, then the workflow runs in the order of their ids.
WITH changed AS (
    UPDATE rota.workflows AS w SET state = :state, revision = w.revision + (w.state <> :state)::integer, changed_at = now()
     WHERE w.namespace = :namespace AND w.id = :workflow_id AND w.state <> 'deleted'
    RETURNING w.namespace, w.id
), open AS MATERIALIZED (
    SELECT r.namespace, r.id FROM changed AS c
      JOIN rota.workflow_runs AS o ON o.namespace = c.namespace AND o.workflow_id = c.id AND o.ended_at IS NULL
      JOIN rota.workflow_runs AS r ON r.namespace = o.namespace AND r.root = o.root AND r.ended_at IS NULL
     WHERE (r.id = o.id OR o.id = o.root) AND r.is_paused <> (:state = 'paused')
     ORDER BY r.id
       FOR UPDATE OF r
), marked AS (
    UPDATE rota.workflow_runs AS r SET is_paused = (:state = 'paused'), revision = r.revision + 1
      FROM (SELECT DISTINCT * FROM open) AS o WHERE r.namespace = o.namespace AND r.id = o.id
    RETURNING r.shard, r.namespace, r.id
), noted AS (
    INSERT INTO rota.flow_notes (shard, namespace, flow) SELECT shard, namespace, id FROM marked WHERE :state <> 'paused'
)
SELECT id, (SELECT count(*) FROM marked) AS marked FROM changed
