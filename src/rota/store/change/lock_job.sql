-- A recurring job, held against other changes until the transaction ends.
-- Index: primary key.
-- Locks: the job's row, FOR NO KEY UPDATE.
SELECT j.* FROM rota.jobs AS j WHERE j.namespace = :namespace AND j.id = :job_id FOR NO KEY UPDATE
