-- Runs of an operation that did not succeed, latest nominal times first.
-- Index: operation_runs_of.
-- Locks: none
SELECT r.run_id, r.nominal_at, r.outcome FROM rota.operation_runs AS r
 WHERE r.namespace = :namespace AND r.operation = :operation AND r.outcome IN ('failed', 'cancelled', 'skipped')
 ORDER BY r.nominal_at DESC
 LIMIT :limit
