-- Puts back notes that were taken in this transaction: they name more gates than one round locks.
-- Index: none
-- Locks: none
INSERT INTO rota.departures (left_at, namespace, run_id, job_id, policies, outcome)
SELECT * FROM unnest(:left_at::timestamptz[], :namespaces::text[], :run_ids::uuid[], :job_ids::uuid[],
                     :policies::jsonb[], :outcomes::text[])
