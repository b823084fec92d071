-- Workflow runs, newest first: of a workflow or all, of an owner or all, that are open, or ended in a way, or all.
-- Index: workflow_runs_of_workflow, primary key.
-- Locks: none
-- Plan: custom
SELECT w.* FROM rota.workflow_runs AS w
 WHERE w.namespace = :namespace AND w.id < :before::uuid
   AND (:workflow_id::uuid IS NULL OR w.workflow_id = :workflow_id)
   AND (:whole::boolean OR w.depth = 0)
   AND (:owner::text IS NULL OR w.owner = :owner)
   AND (:outcome::text IS NULL OR coalesce(w.outcome, CASE WHEN w.stop IN ('cancel', 'deadline') THEN 'cancelling'
                                                           ELSE 'running' END) = :outcome)
 ORDER BY w.id DESC
 LIMIT :limit
