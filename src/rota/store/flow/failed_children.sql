-- Which of these runs are workflow runs that ended without success: they can be resumed.
-- Index: workflow_runs_carried.
-- Locks: none
SELECT w.carrier_id FROM rota.workflow_runs AS w
 WHERE w.namespace = :namespace AND w.carrier_id = ANY (:run_ids::uuid[]) AND w.outcome <> 'success'
