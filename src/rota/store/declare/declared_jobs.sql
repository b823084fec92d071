-- The jobs that an application's code declares or declared, held until the transaction ends.
-- Index: jobs_declared.
-- Locks: the jobs' rows, FOR NO KEY UPDATE.
SELECT j.* FROM rota.jobs AS j WHERE j.namespace = :namespace AND j.app = :app FOR NO KEY UPDATE
