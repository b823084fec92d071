-- The workflow run that a run is.
-- Index: workflow_runs_carried.
-- Locks: none
SELECT w.id FROM rota.workflow_runs AS w WHERE w.namespace = :namespace AND w.carrier_id = :run_id
