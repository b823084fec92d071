-- What is stored of the runs of backfills for these times.
-- Index: operation_runs_of.
-- Locks: none
SELECT r.operation, r.nominal_at, r.outcome, r.has_run FROM rota.operation_runs AS r
 WHERE r.namespace = :namespace AND r.operation = ANY (:operations::uuid[])
   AND r.nominal_at = ANY (:times::timestamptz[])
