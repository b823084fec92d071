-- Takes ids that submitters chose, for their jobs; gives the jobs that got theirs. One that another transaction is taking
-- is waited for; one that is taken stays as it is.
-- Index: primary key.
-- Locks: the ids, in the order given: callers sort.
INSERT INTO rota.chosen_ids (namespace, chosen_id, job_id)
SELECT * FROM unnest(:namespaces::text[], :chosen_ids::text[], :job_ids::uuid[])
ON CONFLICT (namespace, chosen_id) DO NOTHING
RETURNING job_id
