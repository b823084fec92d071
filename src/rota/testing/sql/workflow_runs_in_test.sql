-- The workflow runs, in the order of their start. :name of this workflow, null for any; :status with this status, null for any.
SELECT w.namespace, w.id, w.owner
  FROM rota.workflow_runs AS w
 WHERE (:name::text IS NULL OR w.name = :name)
   AND (:status::text IS NULL OR coalesce(w.outcome, CASE WHEN w.stop IN ('cancel', 'deadline') THEN 'cancelling' ELSE 'running' END) = :status)
 ORDER BY w.opened_at, w.id
